// Ollama's POST /api/embed and the older /api/embeddings. Handlers run on workers.
#pragma once

#include "ws/chat/stateless_answers.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// {"error": "field: message"}, as their clients read it.
std::string OllamaErrorLine(const Status& status);
HttpResponse OllamaRefusal(const Status& status, int64_t retry_after_ms = 0);

/// `one`: /api/embeddings, of one "prompt".
HttpResponse OllamaEmbed(const ChatService& service, bool one, const HttpRequest& request);

}  // namespace ringside
