// Facts about the server and its model for clients of other servers: GET /version, /props, /tokenizer_info. Immutable.
// THREAD: any.
#pragma once

#include <cstdint>
#include <string>

#include "session/session_options.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// Facts unknown to the session layer.
struct ServerFacts {
  std::string version;             // of this server
  double created = 0;              // load time of the model, seconds since 1970
  std::string chat_template = {};  // the model's own, Jinja; "" = none or replaced
  std::string bos = {}, eos = {};  // spellings of the model's tokens; "" = none
  int64_t slots = 0;               // number of slots
};

/// Adds the routes.
/// REQUIRES: `options` outlives them.
void AddServerFactRoutes(Router& router, const SessionTableOptions& options, const ServerFacts& facts);

}  // namespace ringside
