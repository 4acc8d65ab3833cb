// Errors in the format of Ollama's clients. Pure.
// THREAD: any.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// {"error": "field: message"}
std::string OllamaErrorLine(const Status& status);
/// The error as an HTTP response, with ErrorResponse's retry headers.
HttpResponse OllamaRefusal(const Status& status, int64_t retry_after_ms = 0);

}  // namespace ringside
