// What clients of other servers ask of the server and its model: GET /version, /props, /tokenizer_info. Immutable; any
// thread.
#pragma once

#include <cstdint>
#include <string>

#include "session/session_options.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// What no session knows.
struct ServerFacts {
  std::string version;             // of this server
  double created = 0;              // seconds since 1970: when the model was loaded
  std::string chat_template = {};  // the model's own, Jinja; "" = none, or another one is used
  std::string bos = {}, eos = {};  // spellings of the model's tokens; "" = it has none
  int64_t slots = 0;               // conversations held ready at once
};

/// Adds the routes. `options` outlives them.
void AddServerFactRoutes(Router& router, const SessionTableOptions& options, const ServerFacts& facts);

}  // namespace ringside
