#include "ws/chat/ollama/ollama_errors.h"

#include "ws/json/json_writer.h"

namespace ringside {

std::string OllamaErrorLine(const Status& status) {
  const WireError wire = MapStatus(status);
  JsonWriter json;
  json.BeginObject().Field("error", wire.param.empty() ? wire.message : wire.param + ": " + wire.message);
  return json.EndObject().Take();
}

HttpResponse OllamaRefusal(const Status& status, int64_t retry_after_ms) {
  HttpResponse response = ErrorResponse(status, retry_after_ms);
  response.body = OllamaErrorLine(status);
  return response;
}

}  // namespace ringside
