#include "ws/chat/completion_format.h"

#include "ws/openai/responses/responses_objects.h"

namespace ringside {
namespace {

std::string Event(const std::string& json) { return "data: " + json + "\n\n"; }

}  // namespace

const char* FinishReasonName(const Response& response) {
  if (IsCut(response)) return "length";
  return response.call_steps.empty() ? "stop" : "tool_calls";
}

void CompletionFormat::OpenFrame(JsonWriter& json, const std::string& object) const {
  json.BeginObject().Field("id", frame_.id).Field("object", object).Field("created", frame_.created);
  json.Field("model", frame_.model).Key("system_fingerprint").Null();
}

std::string CompletionFormat::Chunk(size_t choice, std::string_view members) const {
  JsonWriter json;
  OpenFrame(json, frame_.chunk_object);
  json.Key("choices").BeginArray().BeginObject().Field("index", choice).Raw(members).EndObject().EndArray();
  if (frame_.include_usage) json.Key("usage").Null();
  return Event(json.EndObject().Take());
}

void CompletionFormat::WriteUsage(JsonWriter& json, const EndedChoices& choices) const {
  const AnswerUsage usage = UsageOf(choices, frame_.choices);
  json.Key("usage").BeginObject().Field("prompt_tokens", usage.input).Field("completion_tokens", usage.output);
  json.Field("total_tokens", usage.input + usage.output);
  json.Key("prompt_tokens_details").BeginObject().Field("cached_tokens", usage.cached).EndObject();
  json.Key("completion_tokens_details").BeginObject().Field("reasoning_tokens", 0).EndObject().EndObject();
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
    json.Field("finish_reason", FinishReasonName(*choices[i])).EndObject();
  }
  json.EndArray();
  WriteUsage(json, choices);
  return json.EndObject().Take();
}

HttpResponse CompletionFormat::Refusal(const Status& status, int64_t retry_after_ms) const {
  return ErrorResponse(status, retry_after_ms);
}

}  // namespace ringside
