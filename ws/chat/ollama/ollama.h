// Ollama's API: /api/chat, /api/generate, what is told of models, and refusals of the rest. Answers are streamed as
// lines of JSON unless the request says otherwise. Handlers run on workers.
#pragma once

#include <cstdint>
#include <string>

#include "ws/chat/stateless_answers.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// What is told of the one model.
struct OllamaModel {
  std::string version;  // of this server
  double created = 0;   // seconds since 1970: when the model was loaded
};

void AddOllamaRoutes(Router& router, const ChatService& service, const OllamaModel& model);

}  // namespace ringside
