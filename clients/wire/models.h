// The model that a server serves. Blocking; fails with the server's own sentence.
#pragma once

#include <map>
#include <string>

#include "clients/wire/http_client.h"

namespace ringside::client {

struct ServedModel {
  std::string name;
  /// What a request that says nothing is answered with: a request's member ("temperature") to its JSON text. Empty
  /// where the server does not tell.
  std::map<std::string, std::string> defaults;
};

Outcome<ServedModel> GetModel(const HttpClient& http);

}  // namespace ringside::client
