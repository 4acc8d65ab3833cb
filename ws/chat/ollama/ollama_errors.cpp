#include "ws/chat/ollama/ollama_errors.h"

#include <fmt/format.h>

#include "base/refusals/context_overflow.h"
#include "ws/json/json_writer.h"

namespace ringside {

std::string OllamaErrorLine(const Status& status) {
  const WireError wire = MapStatus(status);
  std::string message = wire.param.empty() ? wire.message : wire.param + ": " + wire.message;
  if (const auto overflow = ReadContextOverflow(status)) {  // in Ollama's own words
    message = fmt::format("prompt too long; exceeded max context length by {}{} tokens ({} of {})",
                          overflow->at_least ? "at least " : "", overflow->tokens - overflow->limit, overflow->tokens,
                          overflow->limit);
  }
  JsonWriter json;
  json.BeginObject().Field("error", message);
  return json.EndObject().Take();
}

HttpResponse OllamaRefusal(const Status& status, int64_t retry_after_ms) {
  HttpResponse response = ErrorResponse(status, retry_after_ms);
  response.body = OllamaErrorLine(status);
  return response;
}

}  // namespace ringside
