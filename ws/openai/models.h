// The list of models, the one that is served and its adapters: /v1/models and /v1/models/{id}. Immutable; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "session/session_options.h"
#include "ws/transport/http/http.h"

namespace ringside {

struct ServedModel {
  std::string name;
  int64_t created = 0;      // seconds since 1970: when it was loaded
  int64_t request_len = 0;  // tokens of one request: max_model_len, as vLLM has it
  SamplingParams sampling;  // where a request says nothing
  int64_t max_output_tokens = 0;
  std::vector<std::string> adapters = {};
  int64_t session_len = 0, memory_len = 0, pinned_max = 0;  // tokens of a conversation, of its window, of its beginning
  std::vector<std::string> aliases = {};  // further names of the model, as SessionTableOptions has them
};

/// The model of a table with these options, loaded `created_s` seconds after 1970.
ServedModel ServedModelOf(const SessionTableOptions& options, double created_s);
void AddModelRoutes(Router& router, ServedModel model);

}  // namespace ringside
