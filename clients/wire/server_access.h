// Which server a client talks to, and how it gets in: what every command of the client has in common. A plain value.
#pragma once

#include <string>

#include "clients/wire/server_url.h"

namespace ringside::client {

struct ServerAccess {
  ServerUrl url = {};
  std::string url_text = {};  // as the user gave it; "" = the default
  std::string api_key = {};   // "" = none
  std::string ca_file = {};   // of --cacert; in `url` in the end, with the environment's
  bool insecure = false;      // likewise
};

}  // namespace ringside::client
