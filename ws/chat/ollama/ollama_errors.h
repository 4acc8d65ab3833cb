// Errors in the shape in which Ollama's clients read them. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// {"error": "field: message"}
std::string OllamaErrorLine(const Status& status);
/// The same as an answer, with what ErrorResponse says of waiting.
HttpResponse OllamaRefusal(const Status& status, int64_t retry_after_ms = 0);

}  // namespace ringside
