// Ollama's POST /api/embed and the older /api/embeddings.
// THREAD: handlers run on workers.
#pragma once

#include <vector>

#include "ws/chat/stateless_answers.h"
#include "ws/fields/field_info.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// `one`: /api/embeddings with one "prompt".
HttpResponse OllamaEmbed(const ChatService& service, bool one, const HttpRequest& request);
std::vector<RequestKind> OllamaEmbedKinds();

}  // namespace ringside
