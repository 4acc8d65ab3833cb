// The list of models, the served one and its adapters: /v1/models and /v1/models/{id}. Immutable.
// THREAD: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "session/session_options.h"
#include "ws/transport/http/http.h"

namespace ringside {

struct ServedModel {
  std::string name;
  int64_t created = 0;      // load time, seconds since 1970
  int64_t request_len = 0;  // tokens of one request: vLLM's max_model_len
  SamplingParams sampling;  // request defaults
  int64_t max_output_tokens = 0;
  std::vector<std::string> adapters = {};
  int64_t session_len = 0, memory_len = 0, pinned_max = 0;  // limits in tokens: conversation, window, pinned prefix
  std::vector<std::string> aliases = {};                    // more names of the model, as in SessionTableOptions
};

/// The model of a table with these options, loaded at `created_s` (seconds since 1970).
ServedModel ServedModelOf(const SessionTableOptions& options, double created_s);
void AddModelRoutes(Router& router, ServedModel model);

}  // namespace ringside
