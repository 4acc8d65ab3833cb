// Server address and credentials, common to all client commands. A plain value.
#pragma once

#include <string>

#include "clients/wire/transport/server_url.h"

namespace ringside::client {

struct ServerAccess {
  ServerUrl url = {};
  std::string url_text = {};  // as the user gave it; "" = the default
  std::string api_key = {};   // "" = none
  std::string ca_file = {};   // --cacert; merged into `url` with the environment's
  bool insecure = false;      // --insecure; merged in the same way
};

}  // namespace ringside::client
