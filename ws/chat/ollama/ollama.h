// Ollama's API: /api/chat, /api/generate, model information, and refusals of the rest. Answers are streamed as JSON
// lines unless requested otherwise.
// THREAD: handlers run on workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ws/chat/server_facts.h"
#include "ws/chat/stateless_answers.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

void AddOllamaRoutes(Router& router, const ChatService& service, const ServerFacts& facts);
std::vector<RequestKind> OllamaKinds();

}  // namespace ringside
