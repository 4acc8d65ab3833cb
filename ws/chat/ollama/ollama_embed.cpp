#include "ws/chat/ollama/ollama_embed.h"

#include <utility>

#include "base/clock.h"
#include "ws/chat/embeddings.h"
#include "ws/chat/message_fields.h"
#include "ws/chat/ollama/ollama_errors.h"
#include "ws/chat/prompts.h"
#include "ws/fields/ignored_report.h"
#include "ws/openai/responses/responses_fields.h"

namespace ringside {
namespace {

struct OllamaEmbedRequest : EmbeddingRequest {
  bool cut = true;
};

Status ReadField(const JsonValue& value, const std::string& key, bool one, const SessionTableOptions& options,
                 OllamaEmbedRequest* request) {
  if (key == "model") return ReadModel(value, key, options, &request->turn.adapter);
  // The one model stays as it is and where it is, whatever is told.
  if (key == "keep_alive") return Status::Ok();
  if (key == "options") return value.is_object() ? Status::Ok() : WrongType(value, key, "an object");
  if (one && key == "prompt") return ReadString(value, key, &request->texts.emplace_back().text);
  if (!one && key == "input") {
    if (value.is_array() && value.array().empty()) return Status::Ok();
    return ReadPrompts(value, key, kMaxEmbeddedTexts, &request->texts);
  }
  if (!one && key == "truncate") return ReadBool(value, key, &request->cut);
  if (!one && key == "dimensions") return ReadInteger(value, key, 0, INT32_MAX, &request->dimensions);
  return request->ignored.UnknownOfRequest(value, key);
}

Result<OllamaEmbedRequest> ReadRequest(const HttpRequest& request, bool one, const SessionTableOptions& options) {
  ASSIGN_OR_RETURN(const JsonValue body, ReadBody(request));
  OllamaEmbedRequest out;
  out.ignored = IgnoredFields(options.strict_requests);
  out.turn = StatelessTurn(options);
  out.texts_param = one ? "prompt" : "input";
  RETURN_IF_ERROR(ReadFields(
      body, [&](const JsonValue& value, const std::string& key) { return ReadField(value, key, one, options, &out); }));
  for (RawPrompt& text : out.texts) text.cut = out.cut;
  return out;
}

class OllamaWriter final : public EmbeddingWriter {
 public:
  OllamaWriter(bool one, std::string model, std::vector<std::string> ignored)
      : one_(one), model_(std::move(model)), ignored_(std::move(ignored)) {}

  std::string Whole(const EndedChoices& choices) const override {
    JsonWriter json;
    if (one_) {
      json.BeginObject().Key("embedding");
      WriteVector(json, UnitVector(*choices[0]));
      WriteRingsideIgnored(json, ignored_);
      return json.EndObject().Take();
    }
    json.BeginObject().Field("model", model_).Key("embeddings").BeginArray();
    for (const auto& choice : choices) WriteVector(json, UnitVector(*choice));
    const int64_t took_ns = SystemClock::Instance().MonotonicNs() - begun_ns_;
    json.EndArray().Field("total_duration", took_ns).Field("load_duration", 0);
    json.Field("prompt_eval_count", UsageOf(choices, 1).input);
    WriteRingsideIgnored(json, ignored_);
    return json.EndObject().Take();
  }
  HttpResponse Refusal(const Status& status, int64_t retry_after_ms) const override {
    return OllamaRefusal(status, retry_after_ms);
  }

 private:
  const bool one_;
  const std::string model_;
  const std::vector<std::string> ignored_;
  const int64_t begun_ns_ = SystemClock::Instance().MonotonicNs();
};

}  // namespace

HttpResponse OllamaEmbed(const ChatService& service, bool one, const HttpRequest& request) {
  const SessionTableOptions& options = service.table.options();
  Result<OllamaEmbedRequest> read = ReadRequest(request, one, options);
  if (!read.ok()) return OllamaRefusal(read.status());
  auto writer = std::make_shared<OllamaWriter>(one, ModelNameOf(read->turn.adapter, options), read->ignored.names());
  return AnswerEmbeddings(service, request, *std::move(read), std::move(writer));
}

}  // namespace ringside
