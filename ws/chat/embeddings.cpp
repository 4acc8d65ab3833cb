#include "ws/chat/embeddings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/base64.h"
#include "ws/chat/message_fields.h"
#include "ws/chat/prompts.h"
#include "ws/content/asked_model.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/field_readers.h"
#include "ws/fields/ignored_report.h"

namespace ringside {
namespace {

// Concurrent turns of a request: short texts share a step, and part of the owner's limit is left for chats.
constexpr size_t kEmbeddingsInFlight = 48;

static_assert(std::endian::native == std::endian::little, "what is told as base64 is little-endian");

struct OpenAiEmbeddingRequest : EmbeddingRequest {
  bool base64 = false;
};

Status ReadEncoding(const JsonValue& value, const std::string& param, const FieldContext&,
                    OpenAiEmbeddingRequest* request) {
  std::string name;
  RETURN_IF_ERROR(ReadString(value, param, &name));
  if (name != "float" && name != "base64") {
    return InvalidArgument("'encoding_format' is 'float' or 'base64'.", param, "invalid_value");
  }
  request->base64 = name == "base64";
  return Status::Ok();
}

Status ReadInput(const JsonValue& value, const std::string& param, const FieldContext&,
                 OpenAiEmbeddingRequest* request) {
  return ReadPrompts(value, param, kMaxEmbeddedTexts, &request->texts);
}

const FieldTable<OpenAiEmbeddingRequest>& EmbeddingTable() {
  static const FieldTable<OpenAiEmbeddingRequest> table(Join(
      Fields<OpenAiEmbeddingRequest>{
          {"input", FieldType::kString | FieldType::kArray, ReadInput},
          {"encoding_format", FieldType::kString, ReadEncoding, FieldPolicy::kRead, "float, base64"},
          {"dimensions", &OpenAiEmbeddingRequest::dimensions, Range{1, INT32_MAX}},
          LabelField("user")},
      In(&OpenAiEmbeddingRequest::turn, Fields<TurnSpec>{ModelField()}), ForeignFields()));
  return table;
}

Result<OpenAiEmbeddingRequest> ReadRequest(const JsonValue& body, const SessionTableOptions& options) {
  OpenAiEmbeddingRequest out;
  out.ignored = IgnoredFields(options.strict_requests);
  out.turn = StatelessTurn(options);
  RETURN_IF_ERROR(EmbeddingTable().Read(body, {options, &out.ignored}, &out));
  return out;
}

Status Check(const EmbeddingRequest& request, int64_t size) {
  if (size == 0) return Unsupported("model", "embeddings of this model");
  if (request.texts.empty()) return MissingParameter(request.texts_param);
  if (request.dimensions != 0 && request.dimensions != size) {
    return InvalidArgument(fmt::format("This model's embeddings have {} dimensions.", size), "dimensions",
                           "invalid_value");
  }
  const int64_t most = std::min(kMaxEmbeddedTexts, std::max<int64_t>(1, kMaxEmbeddingNumbers / size));
  if (std::ssize(request.texts) <= most) return Status::Ok();
  return InvalidArgument(fmt::format("At most {} texts are embedded at once.", most), request.texts_param,
                         "array_above_max_length");
}

class OpenAiWriter final : public EmbeddingWriter {
 public:
  OpenAiWriter(std::string model, bool base64, std::vector<std::string> ignored)
      : model_(std::move(model)), base64_(base64), ignored_(std::move(ignored)) {}

  std::string Whole(const EndedChoices& choices) const override {
    JsonWriter json;
    json.BeginObject().Field("object", "list").Key("data").BeginArray();
    for (size_t i = 0; i < choices.size(); ++i) {
      json.BeginObject().Field("object", "embedding").Field("index", i).Key("embedding");
      const std::vector<float> vector = UnitVector(*choices[i]);
      if (base64_)
        json.Value(EncodeBase64({reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)}));
      else
        WriteVector(json, vector);
      json.EndObject();
    }
    const int64_t tokens = UsageOf(choices, 1).input;
    json.EndArray().Field("model", model_).Key("usage").BeginObject();
    json.Field("prompt_tokens", tokens).Field("total_tokens", tokens).EndObject();
    WriteRingsideIgnored(json, ignored_);
    return json.EndObject().Take();
  }
  HttpResponse Refusal(const Status& status, int64_t retry_after_ms) const override {
    return ErrorResponse(status, retry_after_ms);
  }

 private:
  const std::string model_;
  const bool base64_;
  const std::vector<std::string> ignored_;
};

}  // namespace

std::vector<float> UnitVector(const Response& response) {
  double squares = 0;
  for (const float x : response.embedding) squares += static_cast<double>(x) * static_cast<double>(x);
  const double length = std::sqrt(squares);
  std::vector<float> unit;
  for (const float x : response.embedding) {
    unit.push_back(length > 0 ? static_cast<float>(static_cast<double>(x) / length) : 0);
  }
  return unit;
}

void WriteVector(JsonWriter& json, const std::vector<float>& vector) {
  json.BeginArray();
  for (const float x : vector) {  // the shortest text that parses to the same float
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof(digits), x);
    json.Raw(std::string_view(digits, static_cast<size_t>(end.ptr - digits)));
  }
  json.EndArray();
}

HttpResponse AnswerEmbeddings(const ChatService& service, const SessionTableOptions& options, const HttpRequest& asked,
                              EmbeddingRequest request, std::shared_ptr<const EmbeddingWriter> writer) {
  if (const Status status = Check(request, options.embedding_size); !status.ok()) {
    return writer->Refusal(status, 0);
  }
  StatelessRequest answers{.in_flight = kEmbeddingsInFlight, .input_param = request.texts_param};
  for (RawPrompt& text : request.texts) {
    text.embedded = true;
    TurnSpec& turn = answers.prompts.emplace_back(request.turn);
    turn.max_output_tokens = 0;
    turn.raw = std::move(text);
  }
  HttpResponse answer = AnswerStateless(service, asked, std::move(answers), std::move(writer));
  return Reported(std::move(answer), options, asked, request.ignored.names());
}

RequestKind EmbeddingKind() { return {"POST /v1/embeddings", EmbeddingTable().Describe()}; }

HttpResponse CreateEmbeddings(const ChatService& service, const HttpRequest& request) {
  const auto body = ReadAskedBody(service.table, request);
  if (!body.ok()) return ErrorResponse(body.status());
  const SessionTableOptions& options = *body->options;
  Result<OpenAiEmbeddingRequest> read = ReadRequest(body->json, options);
  if (!read.ok()) return ErrorResponse(read.status());
  auto writer =
      std::make_shared<OpenAiWriter>(ModelNameOf(read->turn.adapter, options), read->base64, read->ignored.names());
  return AnswerEmbeddings(service, options, request, *std::move(read), std::move(writer));
}

}  // namespace ringside
