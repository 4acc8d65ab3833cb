#include "ws/chat/ollama/ollama_embed.h"

#include <utility>

#include "base/clock.h"
#include "ws/chat/embeddings.h"
#include "ws/chat/message_fields.h"
#include "ws/chat/ollama/ollama_errors.h"
#include "ws/chat/prompts.h"
#include "ws/content/asked_model.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/field_readers.h"
#include "ws/fields/ignored_report.h"

namespace ringside {
namespace {

struct OllamaEmbedRequest : EmbeddingRequest {
  bool cut = true;
};

Status ReadOllamaPrompt(const JsonValue& value, const std::string& param, const FieldContext&,
                        OllamaEmbedRequest* request) {
  return ReadString(value, param, &request->texts.emplace_back().text);
}

Status ReadOllamaInput(const JsonValue& value, const std::string& param, const FieldContext&,
                       OllamaEmbedRequest* request) {
  if (value.is_array() && value.array().empty()) return Status::Ok();
  return ReadPrompts(value, param, kMaxEmbeddedTexts, &request->texts);
}

/// Settings of Ollama's runner.
Status CheckOptions(const JsonValue& value, const std::string& param, const FieldContext&, void*) {
  return value.is_object() ? Status::Ok() : WrongType(value, param, "an object");
}

/// `one`: fields of /api/embeddings.
FieldTable<OllamaEmbedRequest> MakeTable(bool one) {
  const Fields<OllamaEmbedRequest> own =
      one ? Fields<OllamaEmbedRequest>{{"prompt", FieldType::kString, ReadOllamaPrompt}}
          : Fields<OllamaEmbedRequest>{{"input", FieldType::kString | FieldType::kArray, ReadOllamaInput},
                                       {"truncate", &OllamaEmbedRequest::cut},
                                       {"dimensions", &OllamaEmbedRequest::dimensions, Range{0, INT32_MAX}}};
  return FieldTable<OllamaEmbedRequest>(Join(own, In(&OllamaEmbedRequest::turn, Fields<TurnSpec>{ModelField()}),
                                             Fields<void>{{"keep_alive", Silent{}},  // the model is always loaded
                                                          {"options", FieldType::kObject, CheckOptions}},
                                             ForeignFields()));
}

const FieldTable<OllamaEmbedRequest>& Table(bool one) {
  static const FieldTable<OllamaEmbedRequest> tables[] = {MakeTable(false), MakeTable(true)};
  return tables[one ? 1 : 0];
}

Result<OllamaEmbedRequest> ReadRequest(const JsonValue& body, bool one, const SessionTableOptions& options) {
  OllamaEmbedRequest out;
  out.ignored = IgnoredFields(options.strict_requests);
  out.turn = StatelessTurn(options);
  out.texts_param = one ? "prompt" : "input";
  RETURN_IF_ERROR(Table(one).Read(body, {options, &out.ignored}, &out));
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
  const auto body = ReadAskedBody(service.table, request);
  if (!body.ok()) return OllamaRefusal(body.status());
  const SessionTableOptions& options = *body->options;
  Result<OllamaEmbedRequest> read = ReadRequest(body->json, one, options);
  if (!read.ok()) return OllamaRefusal(read.status());
  auto writer = std::make_shared<OllamaWriter>(one, ModelNameOf(read->turn.adapter, options), read->ignored.names());
  return AnswerEmbeddings(service, options, request, *std::move(read), std::move(writer));
}

std::vector<RequestKind> OllamaEmbedKinds() {
  return {{"POST /api/embed", Table(false).Describe()}, {"POST /api/embeddings", Table(true).Describe()}};
}

}  // namespace ringside
