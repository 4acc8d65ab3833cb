#include "ws/chat/message_fields.h"

#include <algorithm>

#include "session/ids.h"
#include "ws/content/image_fields.h"
#include "ws/content/tool_fields.h"
#include "ws/fields/common_fields.h"
#include "ws/fields/field_readers.h"
#include "ws/fields/rotating_headers.h"

namespace ringside {
namespace {

constexpr size_t kQuoted = 256;  // limit of a client's text in an error

bool Contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Handles a field of a message or part that has no reader.
Status ReadOther(const JsonValue& value, std::string_view key, const std::string& param, const MessageRules& rules,
                 IgnoredFields* ignored) {
  const std::string name = param + "." + std::string(key.substr(0, kQuoted));
  if (Contains(rules.empty, key)) return RequireEmpty(value, name);
  return Contains(rules.hints, key) ? ignored->HintUnlessEmpty(value, name) : ignored->Unknown(name);
}

/// The content, or the refusal in its place.
const JsonValue* ContentOf(const JsonValue& message) {
  const JsonValue* content = message.Find("content");
  return content != nullptr ? content : message.Find("refusal");
}

Status ReadRole(const JsonValue& value, const std::string& param, const MessageRules& rules, ChatRole* out) {
  if (!value.is_string()) return WrongType(value, param, "a string");
  const std::string& name = value.string();
  if (name == "tool" && rules.tools) {
    *out = ChatRole::kTool;
    return Status::Ok();
  }
  const Result<ChatRole> role = ParseChatRole(name);
  if (role.ok() && Contains(rules.roles, name)) {
    *out = *role;
    return Status::Ok();
  }
  if (name == "tool" || name == "function") return Unsupported(param, "messages of the role '" + name + "'");
  std::string supported;
  for (const std::string_view known : rules.roles) {
    supported += (supported.empty() ? "'" : ", '") + std::string(known) + "'";
  }
  return InvalidArgument("Invalid value: '" + name.substr(0, kQuoted) + "'. Supported values are: " + supported + ".",
                         param, "invalid_value");
}

/// Parses the reasoning of an earlier answer; other roles have none.
Status ReadReasoning(const JsonValue& message, const std::string& param, const MessageRules& rules,
                     IgnoredFields* ignored, NewItem* out) {
  for (const std::string_view key : rules.reasoning) {
    const JsonValue* const text = message.Find(key);
    if (text == nullptr || IsEmpty(*text)) continue;
    if (text->is_string() && out->role == ChatRole::kAssistant) {
      if (out->reasoning.empty()) out->reasoning = text->string();
    } else {
      RETURN_IF_ERROR(ignored->Hint(param + "." + std::string(key), "such a '" + std::string(key) + "'"));
    }
  }
  return Status::Ok();
}

Status ReadCalls(const JsonValue& value, const std::string& param, NewItem* out) {
  if (!value.is_array()) return WrongType(value, param, "an array of tool calls");
  if (!value.array().empty() && out->role != ChatRole::kAssistant) {
    return InvalidArgument("Only messages of the assistant may have tool calls.", param, "invalid_value");
  }
  for (size_t i = 0; i < value.array().size(); ++i) {
    const JsonValue& call = value.array()[i];
    const std::string at = param + "[" + std::to_string(i) + "]";
    if (!call.is_object()) return WrongType(call, at, "an object");
    const JsonValue* type = call.Find("type");
    const bool custom = type != nullptr && type->string() == "custom";
    if (type != nullptr && !custom && type->string() != "function") {
      return Unsupported(at + ".type", "tool calls of another type than 'function' and 'custom'");
    }
    const std::string kind = custom ? "custom" : "function", place = at + "." + kind;
    const JsonValue* tool = call.Find(kind);
    if (tool == nullptr) return MissingParameter(place);
    if (!tool->is_object()) return WrongType(*tool, place, "an object");
    RETURN_IF_ERROR(AddCall({.name = tool->Find("name"),
                             .arguments = tool->Find(custom ? "input" : "arguments"),
                             .id = call.Find("id"),
                             .custom = custom},
                            place, "id", out));
  }
  return Status::Ok();
}

}  // namespace

const MessageRules& ChatMessageRules() {
  static const MessageRules rules{
      .roles = {"system", "developer", "user", "assistant"},
      .empty = {"function_call"},
      .hints = {"refusal", "audio", "annotations", "reasoning_details", "provider_specific_fields"},
      .reasoning = {"reasoning_content", "reasoning"},
      .ignored = {"cache_control"},
      .image = "image_url",
      .tools = true,
      .names = true};
  return rules;
}

Status ReadTextPart(const JsonValue& part, const std::string& param, const MessageRules& rules, IgnoredFields* ignored,
                    NewItem* out) {
  if (!part.is_object()) return WrongType(part, param, "an object");
  const JsonValue* type = part.Find("type");
  if (type == nullptr) return MissingParameter(param + ".type");
  if (!type->is_string()) return WrongType(*type, param + ".type", "a string");
  const std::string& name = type->string();
  if (name != "text" && name != "refusal") {  // a refusal is treated as text
    Status unsupported = Unsupported(param + ".type", "content of type '" + name.substr(0, kQuoted) + "'");
    return !name.empty() && name == rules.image ? ReadImagePart(part, param, std::move(unsupported), ignored, out)
                                                : unsupported;
  }
  const JsonValue* text = part.Find(name);
  if (text == nullptr) return MissingParameter(param + "." + name);
  if (!text->is_string()) return WrongType(*text, param + "." + name, "a string");
  for (const auto& [key, value] : part.object()) {
    if (key == "type" || key == name || value.is_null() || Contains(rules.ignored, key)) continue;
    RETURN_IF_ERROR(ReadOther(value, key, param, rules, ignored));
  }
  const std::string_view said =
      out->role == ChatRole::kSystem ? WithoutRotatingHeaders(text->string()) : std::string_view(text->string());
  if (!said.empty() || text->string().empty()) AddPart(said, out);
  return Status::Ok();
}

Status ReadMessageRole(const JsonValue& message, const std::string& param, const MessageRules& rules,
                       IgnoredFields* ignored, ChatRole* out) {
  if (!message.is_object()) return WrongType(message, param, "an object");
  const JsonValue* role = message.Find("role");
  const bool result = rules.tools && role != nullptr && role->is_string() && role->string() == "tool";
  for (const auto& [key, value] : message.object()) {
    if (value.is_null() || key == "role" || key == "content" || Contains(rules.ignored, key)) continue;
    if (Contains(rules.reasoning, key) || (!key.empty() && key == rules.images)) continue;
    if (rules.tools && (key == "tool_calls" || key == "tool_call_id")) continue;
    if (result && key == "name") continue;  // the tool's name, which the call has
    if (&value == ContentOf(message)) continue;
    if (rules.names && key == "name") {
      if (!value.is_string()) return WrongType(value, param + ".name", "a string");
      continue;
    }
    RETURN_IF_ERROR(ReadOther(value, key, param, rules, ignored));
  }
  return role == nullptr ? MissingParameter(param + ".role") : ReadRole(*role, param + ".role", rules, out);
}

Status ReadMessage(const JsonValue& message, const std::string& param, const MessageRules& rules,
                   IgnoredFields* ignored, NewItem* out) {
  RETURN_IF_ERROR(ReadMessageRole(message, param, rules, ignored, &out->role));
  RETURN_IF_ERROR(ReadReasoning(message, param, rules, ignored, out));
  const JsonValue* content = ContentOf(message);
  const JsonValue* calls = rules.tools ? message.Find("tool_calls") : nullptr;
  const bool has_calls = calls != nullptr && !IsEmpty(*calls);
  const bool has_more = has_calls || !out->reasoning.empty();
  if (content == nullptr && !has_more) return MissingParameter(param + ".content");
  const JsonValue* const images = rules.images.empty() ? nullptr : message.Find(rules.images);
  if (images != nullptr) {
    RETURN_IF_ERROR(ReadImageList(*images, param + "." + std::string(rules.images), out));
  }
  if (content != nullptr) RETURN_IF_ERROR(ReadText(*content, param + ".content", rules, ignored, out));
  if (has_calls) RETURN_IF_ERROR(ReadCalls(*calls, param + ".tool_calls", out));
  if (!rules.tools || out->role != ChatRole::kTool) return Status::Ok();
  const JsonValue* id = message.Find("tool_call_id");
  return id == nullptr ? Status::Ok() : ReadCallId(*id, param + ".tool_call_id", &out->call_ids);
}

Status ReadText(const JsonValue& value, const std::string& param, const MessageRules& rules, IgnoredFields* ignored,
                NewItem* out) {
  if (value.is_string() && !out->images.empty()) {
    AddPart(value.string(), out);
    return Status::Ok();
  }
  if (value.is_string()) {
    out->text = value.string();
    if (out->role == ChatRole::kSystem) out->text = WithoutRotatingHeaders(value.string());
    return Status::Ok();
  }
  if (!value.is_array()) return WrongType(value, param, "a string or an array of content parts");
  for (size_t i = 0; i < value.array().size(); ++i) {
    RETURN_IF_ERROR(ReadTextPart(value.array()[i], param + "[" + std::to_string(i) + "]", rules, ignored, out));
  }
  return Status::Ok();
}

Status ReadMessages(const JsonValue& value, const std::string& param, const MessageRules& rules, size_t least,
                    IgnoredFields* ignored, std::vector<NewItem>* out) {
  if (!value.is_array()) return WrongType(value, param, "an array of messages");
  if (value.array().size() < least) {
    return InvalidArgument("'" + param + "' must contain at least one message.", param, "invalid_value");
  }
  for (size_t i = 0; i < value.array().size(); ++i) {
    NewItem item;
    RETURN_IF_ERROR(ReadMessage(value.array()[i], param + "[" + std::to_string(i) + "]", rules, ignored, &item));
    out->push_back(std::move(item));
  }
  return Status::Ok();
}

TurnSpec StatelessTurn(const SessionTableOptions& options) {
  TurnSpec spec;
  spec.sampling = options.sampling;
  spec.sampling.seed = RandomBits();
  spec.carries_history = true;
  spec.store = false;
  spec.adapter = "";     // unless the request names one
  spec.tools.emplace();  // none unless the request has tools
  return spec;
}

}  // namespace ringside
