// The model that a server serves. Blocking; fails with the server's message.
#pragma once

#include <map>
#include <string>

#include "clients/wire/http_client.h"

namespace ringside::client {

struct ServedModel {
  std::string name;
  /// Default request settings: a request member ("temperature") to its JSON text. Empty if the server does not report
  /// them.
  std::map<std::string, std::string> defaults;
};

Outcome<ServedModel> GetModel(const HttpClient& http);

}  // namespace ringside::client
