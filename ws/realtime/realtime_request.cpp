#include "ws/realtime/realtime_request.h"

#include "base/limits.h"
#include "ws/content/item_fields.h"
#include "ws/content/response_request.h"
#include "ws/fields/common_fields.h"
#include "ws/json/json_writer.h"

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
        return InvalidArgument("An item_reference must have the 'id' of an item.", name + ".id",
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

/// A response.create: session settings overridden by the response's, and fields of responses only.
struct CreateEvent {
  RealtimeSettings form;
  RealtimeRequest request;
};

Status ReadConversation(const JsonValue& value, const std::string& param, const FieldContext&, CreateEvent* event) {
  std::string name;
  RETURN_IF_ERROR(ReadString(value, param, &name));
  event->request.in_conversation = name != "none";
  if (name == "auto" || name == "none" || name == event->form.conversation) return Status::Ok();
  return Unsupported(param, "another conversation than the session's");
}

Status ReadResponseInput(const JsonValue& value, const std::string& param, const FieldContext& context,
                         CreateEvent* event) {
  return ReadInput(value, param, context.ignored, &event->request.input.emplace());
}

Status ReadResponseMetadata(const JsonValue& value, const std::string& param, const FieldContext& context,
                            CreateEvent* event) {
  Metadata metadata;
  RETURN_IF_ERROR(ReadAnswerMetadata(value, param, context.ignored, &metadata));
  JsonWriter json;
  json.BeginObject();
  for (const auto& [name, text] : metadata) json.Field(name, text);
  event->request.metadata = json.EndObject().Take();
  return Status::Ok();
}

Status ReadResponseTools(const JsonValue& value, const std::string& param, const FieldContext& context,
                         RealtimeSettings* form) {
  ASSIGN_OR_RETURN(form->tools, ReadRealtimeTools(value, param, context.ignored));
  return Status::Ok();
}

const FieldTable<CreateEvent>& CreateTable() {
  static const FieldTable<CreateEvent> response(
      Join(Fields<CreateEvent>{{"conversation", FieldType::kString, ReadConversation, FieldPolicy::kRead, "auto, none"},
                               {"input", FieldType::kArray, ReadResponseInput},
                               {"metadata", FieldType::kObject, ReadResponseMetadata}},
           In(&CreateEvent::form, Join(Fields<RealtimeSettings>{{"instructions", &RealtimeSettings::instructions},
                                                                {"tools", FieldType::kArray, ReadResponseTools}},
                                       RealtimeFormRows()))));
  static const FieldTable<CreateEvent> table(Join(Fields<CreateEvent>{{"response", response}}, EventFields()));
  return table;
}

/// The equivalent Responses request as JSON.
std::string BodyOf(const RealtimeSettings& form, bool stored, const SessionTableOptions& options) {
  JsonWriter body;
  body.BeginObject();
  if (form.adapter) body.Field("model", ModelNameOf(form.adapter, options));
  if (form.instructions) body.Field("instructions", *form.instructions);
  if (form.tools) body.Key("tools").Raw(*form.tools);
  body.Key("tool_choice").Raw(form.tool_choice);
  if (form.parallel_tool_calls) body.Field("parallel_tool_calls", *form.parallel_tool_calls);
  for (const auto& [field, value] : form.sampling) body.Key(field).Raw(value);
  if (form.max_output_tokens) body.Field("max_output_tokens", *form.max_output_tokens);
  body.Field("truncation", form.truncates ? "auto" : "disabled").Field("store", stored);
  return body.EndObject().Take();
}

}  // namespace

Result<RealtimeRequest> ReadRealtimeRequest(const JsonValue& event, const RealtimeSettings& settings,
                                            const SessionTableOptions& options) {
  IgnoredFields ignored(options.strict_requests, "response.");
  CreateEvent create{.form = settings};
  RETURN_IF_ERROR(CreateTable().Read(event, {options, &ignored}, &create));
  RealtimeRequest& request = create.request;
  if (request.input && request.in_conversation) {
    return Unsupported(
        "response.input",
        "an input of its own for a response that is added to the conversation: create conversation items, or set "
        "\"conversation\": \"none\"");
  }
  // The remaining fields are checked, and stored with the response, as those of a Responses request.
  ASSIGN_OR_RETURN(const JsonValue body, ParseJson(BodyOf(create.form, request.in_conversation, options)));
  ASSIGN_OR_RETURN(request.spec, ReadCreate(body, options, &ignored));
  request.ignored = ignored.names();
  request.spec.carries_history = !request.in_conversation;
  const std::optional<int64_t>& most = create.form.max_output_tokens;
  request.max_output_tokens = most ? std::to_string(*most) : "\"inf\"";
  return std::move(request);
}

RequestKind RealtimeCreateKind() { return {"realtime response.create", CreateTable().Describe()}; }

}  // namespace ringside
