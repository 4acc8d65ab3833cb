#include "ws/realtime/realtime_request.h"

#include "base/limits.h"
#include "ws/fields/reasoning_fields.h"
#include "ws/json/json_text.h"
#include "ws/json/json_writer.h"
#include "ws/openai/responses/responses_fields.h"
#include "ws/openai/responses/responses_request.h"
#include "ws/openai/responses/responses_sampling.h"

namespace ringside {
namespace {

Status ReadInput(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                 std::vector<RealtimeInput>* out) {
  if (!value.is_array()) return WrongType(value, param, "an array");
  if (value.array().size() > static_cast<size_t>(limits::kMaxInputItems)) {
    return InvalidArgument("At most " + std::to_string(limits::kMaxInputItems) + " items are allowed at once.", param,
                           "array_above_max_length");
  }
  for (size_t i = 0; i < value.array().size(); ++i) {
    const JsonValue& entry = value.array()[i];
    const std::string name = param + "[" + std::to_string(i) + "]";
    RealtimeInput input;
    const JsonValue* type = entry.Find("type");
    if (type != nullptr && type->is_string() && type->string() == "item_reference") {
      const JsonValue* id = entry.Find("id");
      if (id == nullptr || !id->is_string() || id->string().empty()) {
        return InvalidArgument("An item_reference has the 'id' of an item.", name + ".id",
                               "missing_required_parameter");
      }
      input.reference = id->string();
    } else {
      RETURN_IF_ERROR(ReadItem(entry, name, ignored, &input.item));
    }
    out->push_back(std::move(input));
  }
  return Status::Ok();
}

class RequestReader {
 public:
  RequestReader(const RealtimeSettings& settings, const SessionTableOptions& options)
      : settings_(settings),
        options_(options),
        instructions_(settings.instructions),
        tools_(settings.tools),
        tool_choice_(settings.tool_choice),
        max_output_tokens_(settings.max_output_tokens),
        parallel_tool_calls_(settings.parallel_tool_calls),
        sampling_(settings.sampling),
        ignored_(options.strict_requests, "response.") {}

  Result<RealtimeRequest> Read(const JsonValue* response) {
    body_.BeginObject();
    if (response != nullptr) {
      if (!response->is_object()) return WrongType(*response, "response", "an object");
      for (const auto& [key, value] : response->object()) {
        if (!value.is_null()) RETURN_IF_ERROR(ReadField(value, key));
      }
    }
    if (request_.input && request_.in_conversation) {
      return Unsupported("response.input",
                         "an input of its own for an answer that the conversation keeps: create "
                         "items, or say \"conversation\": \"none\"");
    }
    // The rest is checked, and remembered with the response, as that of a Responses request.
    if (settings_.adapter) body_.Field("model", ModelNameOf(settings_.adapter, options_));
    if (instructions_) body_.Field("instructions", *instructions_);
    if (tools_) body_.Key("tools").Raw(*tools_);
    body_.Key("tool_choice").Raw(tool_choice_);
    if (parallel_tool_calls_) body_.Field("parallel_tool_calls", *parallel_tool_calls_);
    for (const auto& [field, value] : sampling_) body_.Key(field).Raw(value);
    if (max_output_tokens_) body_.Field("max_output_tokens", *max_output_tokens_);
    body_.Field("truncation", settings_.truncates ? "auto" : "disabled").Field("store", request_.in_conversation);
    ASSIGN_OR_RETURN(const JsonValue body, ParseJson(body_.EndObject().text()));
    ASSIGN_OR_RETURN(request_.spec, ReadCreate(body, options_, &ignored_));
    request_.ignored = ignored_.names();
    request_.spec.carries_history = !request_.in_conversation;
    request_.max_output_tokens = max_output_tokens_ ? std::to_string(*max_output_tokens_) : "\"inf\"";
    return std::move(request_);
  }

 private:
  Status ReadField(const JsonValue& value, const std::string& key) {
    const std::string param = "response." + key;
    if (key == "conversation") {
      std::string name;
      RETURN_IF_ERROR(ReadString(value, param, &name));
      request_.in_conversation = name != "none";
      if (name == "auto" || name == "none" || name == settings_.conversation) return Status::Ok();
      return Unsupported(param, "another conversation than the session's");
    }
    if (key == "input") return ReadInput(value, param, &ignored_, &request_.input.emplace());
    if (key == "max_output_tokens") return ReadMaxOutputTokens(value, param, &max_output_tokens_);
    if (key == "instructions") {
      std::string text;
      RETURN_IF_ERROR(ReadString(value, param, &text));
      instructions_ = std::move(text);
      return Status::Ok();
    }
    if (key == "metadata") {
      Metadata metadata;
      RETURN_IF_ERROR(ReadAnswerMetadata(value, param, &ignored_, &metadata));
      JsonWriter json;
      json.BeginObject();
      for (const auto& [name, text] : metadata) json.Field(name, text);
      request_.metadata = json.EndObject().Take();
      return Status::Ok();
    }
    if (key == "tools") {
      ASSIGN_OR_RETURN(tools_, ReadRealtimeTools(value, param, &ignored_));
      return Status::Ok();
    }
    if (key == "tool_choice") {
      ASSIGN_OR_RETURN(tool_choice_, ReadRealtimeToolChoice(value, param));
      return Status::Ok();
    }
    if (key == "parallel_tool_calls") return ReadBool(value, param, &parallel_tool_calls_.emplace());
    if (!IsSamplingField(key) && !IsReasoningField(key)) return IgnoreBesidesText(value, key, param, &ignored_);
    JsonWriter json;
    WriteJson(json, value);
    sampling_[key] = json.Take();
    return Status::Ok();
  }

  const RealtimeSettings& settings_;
  const SessionTableOptions& options_;
  std::optional<std::string> instructions_, tools_;
  std::string tool_choice_;
  std::optional<int64_t> max_output_tokens_;
  std::optional<bool> parallel_tool_calls_;
  std::map<std::string, std::string> sampling_;  // and reasoning, by field, JSON
  IgnoredFields ignored_;
  JsonWriter body_;
  RealtimeRequest request_;
};

}  // namespace

Result<RealtimeRequest> ReadRealtimeRequest(const JsonValue* response, const RealtimeSettings& settings,
                                            const SessionTableOptions& options) {
  return RequestReader(settings, options).Read(response);
}

}  // namespace ringside
