// The models that a server serves, and the tokens of a text. Blocking; each function fails with the server's message.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "clients/wire/transport/http_client.h"

namespace ringside::client {

struct ServedModel {
  std::string name = "a model";
  /// Default request settings: a request member ("temperature") to its JSON text. Empty if the server does not report
  /// them.
  std::map<std::string, std::string> defaults;
  int64_t max_input_tokens = 0;   // longest input; 0 = unknown
  int64_t max_request_bytes = 0;  // of a body or WebSocket message; 0 = unknown
  std::string parent;             // the model that this one is an adapter or another name of; "" = none
  // Only a server with several models has these; otherwise `state` is "".
  std::string state, reason;  // "loaded", "loading", "unloading", "unloaded"; "failed", "unsupported": with the reason
  int64_t file_bytes = 0, memory_bytes = 0;
  int64_t running = 0, waiting = 0;  // turns
};

/// Parses the server's list of models. Pure.
std::vector<ServedModel> ParseModels(const std::string& body);
/// All models, the default one first.
Outcome<std::vector<ServedModel>> ListModels(const HttpClient& http);
/// The default model; "a model" if the server names none.
Outcome<ServedModel> GetModel(const HttpClient& http);
/// Tokens of a first message with this text. ERRORS: code context_length_exceeded beyond the longest input.
Outcome<int64_t> CountTokens(const HttpClient& http, const std::string& text);

}  // namespace ringside::client
