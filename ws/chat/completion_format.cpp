#include "ws/chat/completion_format.h"

#include <fmt/format.h>

#include <iterator>

#include "ws/content/response_objects.h"
#include "ws/fields/ignored_report.h"

namespace ringside {
namespace {

std::string Event(const std::string& json) { return "data: " + json + "\n\n"; }

}  // namespace

CompletionFormat::CompletionFormat(const Tokenizer& tokenizer, Frame frame)
    : tokenizer_(tokenizer), frame_(std::move(frame)), chunk_frame_(ChunkFrame()) {}

void CompletionFormat::WriteFinish(JsonWriter& json, const Response& response) {
  json.Field("finish_reason", IsCut(response) ? "length" : response.call_steps.empty() ? "stop" : "tool_calls");
  WriteRingsideIgnored(json, {}, IsFull(response) ? kSessionFull : RepetitionReason(response));
}

void CompletionFormat::WritePromptIds(JsonWriter& json, const Response& response) const {
  if (!frame_.token_ids) return;
  json.Key("prompt_token_ids").BeginArray();
  for (const TokenId id : response.prompt_ids.From(0)) json.Value(id);
  json.EndArray();
}

void CompletionFormat::WriteIds(JsonWriter& json, std::span<const TokenId> ids) const {
  if (!frame_.token_ids) return;
  json.Key("token_ids").BeginArray();
  for (const TokenId id : ids) json.Value(id);
  json.EndArray();
}

void CompletionFormat::WriteIds(JsonWriter& json, std::span<const OutputToken> tokens) const {
  std::vector<TokenId> ids;
  for (const OutputToken& token : tokens) ids.push_back(token.id);
  WriteIds(json, ids);
}

void CompletionFormat::OpenFrame(JsonWriter& json, const std::string& object) const {
  json.BeginObject().Field("id", frame_.id).Field("object", object).Field("created", frame_.created);
  json.Field("model", frame_.model).Key("system_fingerprint").Null();
}

std::string CompletionFormat::ChunkFrame() const {
  JsonWriter json;
  OpenFrame(json, frame_.chunk_object);
  json.Key("choices").BeginArray().BeginObject().Key("index");
  return "data: " + json.Take();
}

std::string CompletionFormat::Chunk(size_t choice, std::string_view members, std::string_view of_answer,
                                    const std::optional<AnswerUsage>& so_far) const {
  std::string out;
  out.reserve(chunk_frame_.size() + members.size() + of_answer.size() + 128);
  fmt::format_to(std::back_inserter(out), "{}{},{}}}]", chunk_frame_, choice, members);
  if (!of_answer.empty()) out.append(",").append(of_answer);
  if (frame_.include_usage && frame_.continuous_usage && so_far) {
    fmt::format_to(std::back_inserter(out),
                   R"(,"usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{}}})", so_far->input,
                   so_far->output, so_far->input + so_far->output);
  } else if (frame_.include_usage) {
    out += ",\"usage\":null";
  }
  return out += "}\n\n";
}

std::string CompletionFormat::LastChunk(size_t choice, std::string_view members, const Response& response) const {
  return Chunk(choice, members, RingsideIgnored(frame_.ignored), UsageOf(response));
}

void CompletionFormat::WriteUsage(JsonWriter& json, const EndedChoices& choices) const {
  const AnswerUsage usage = UsageOf(choices, frame_.choices);
  json.Key("usage").BeginObject().Field("prompt_tokens", usage.input).Field("completion_tokens", usage.output);
  json.Field("total_tokens", usage.input + usage.output);
  json.Key("prompt_tokens_details").BeginObject().Field("cached_tokens", usage.cached).EndObject();
  json.Key("completion_tokens_details").BeginObject().Field("reasoning_tokens", usage.reasoning).EndObject();
  json.EndObject();
}

std::string CompletionFormat::Finish(const EndedChoices& choices) const {
  std::string events;
  if (frame_.include_usage) {
    JsonWriter json;
    OpenFrame(json, frame_.chunk_object);
    json.Key("choices").BeginArray().EndArray();
    WriteUsage(json, choices);
    events = Event(json.EndObject().Take());
  }
  return events + "data: [DONE]\n\n";
}

std::string CompletionFormat::Failure(const Status& status) const {
  JsonWriter json;
  json.BeginObject().Key("error").Raw(ErrorObject(status)).EndObject();
  return Event(json.Take());
}

std::string CompletionFormat::Whole(const EndedChoices& choices) const {
  JsonWriter json;
  OpenFrame(json, frame_.object);
  json.Key("choices").BeginArray();
  for (size_t i = 0; i < choices.size(); ++i) {
    json.BeginObject().Field("index", i);
    WriteWhole(json, i, *choices[i]);
    WriteFinish(json, *choices[i]);
    WriteIds(json, choices[i]->output_ids);
    json.EndObject();
  }
  json.EndArray();
  WriteWholeAnswer(json, choices);
  WriteUsage(json, choices);
  WriteRingsideIgnored(json, frame_.ignored);
  return json.EndObject().Take();
}

HttpResponse CompletionFormat::Refusal(const Status& status, int64_t retry_after_ms) const {
  return ErrorResponse(status, retry_after_ms);
}

}  // namespace ringside
