#include "ws/openai/responses/responses_fields.h"

#include <cmath>

#include "base/limits.h"
#include "ws/openai/tool_fields.h"

namespace ringside {
namespace {

std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string Within(const std::string& param, std::string_view key) { return param + "." + std::string(key); }
std::string Within(const std::string& param, size_t index) { return param + "[" + std::to_string(index) + "]"; }

// One part of a message's content, appended.
Status ReadPart(const JsonValue& part, const std::string& param, NewItem* out) {
  if (!part.is_object()) return WrongType(part, param, "an object");
  const JsonValue* type = part.Find("type");
  if (type == nullptr || !type->is_string()) {
    return InvalidArgument("Missing required parameter: " + Quoted(Within(param, "type")) + ".", Within(param, "type"),
                           "missing_required_parameter");
  }
  const std::string& name = type->string();
  if (name != "input_text" && name != "output_text" && name != "text") {
    return Unsupported(Within(param, "type"), "content of type " + Quoted(name));
  }
  bool has_text = false;
  for (const auto& [key, value] : part.object()) {
    if (value.is_null() || key == "type" || key == "annotations" || key == "logprobs") continue;
    if (key != "text") return UnknownParameter(Within(param, key));
    if (!value.is_string()) return WrongType(value, Within(param, key), "a string");
    AddPart(value.string(), out);
    has_text = true;
  }
  if (has_text) return Status::Ok();
  return InvalidArgument("Missing required parameter: " + Quoted(Within(param, "text")) + ".", Within(param, "text"),
                         "missing_required_parameter");
}

}  // namespace

Status ReadContent(const JsonValue& content, const std::string& param, NewItem* out) {
  if (content.is_string()) {
    out->text = content.string();
    return Status::Ok();
  }
  if (!content.is_array()) return WrongType(content, param, "a string or an array of content parts");
  for (size_t i = 0; i < content.array().size(); ++i) {
    RETURN_IF_ERROR(ReadPart(content.array()[i], Within(param, i), out));
  }
  return Status::Ok();
}

Status ReadItem(const JsonValue& item, const std::string& param, NewItem* out) {
  if (!item.is_object()) return WrongType(item, param, "an object");
  if (const JsonValue* type = item.Find("type"); type != nullptr) {
    if (!type->is_string()) return WrongType(*type, Within(param, "type"), "a string");
    if (type->string() == "function_call") return ReadFunctionCall(item, param, out);
    if (type->string() == "function_call_output") return ReadFunctionCallOutput(item, param, out);
    if (type->string() != "message") {
      return Unsupported(Within(param, "type"), "an item of type " + Quoted(type->string()));
    }
  }
  bool has_role = false, has_content = false;
  for (const auto& [key, value] : item.object()) {
    if (value.is_null() || key == "type" || key == "id" || key == "status" || key == "phase" || key == "object")
      continue;
    if (key == "role") {
      if (!value.is_string()) return WrongType(value, Within(param, key), "a string");
      const Result<ChatRole> role = ParseChatRole(value.string());
      if (!role.ok()) {
        return InvalidArgument("Invalid value: " + Quoted(value.string()) +
                                   ". Supported values are: 'assistant', 'system', 'developer', and 'user'.",
                               Within(param, key), "invalid_value");
      }
      out->role = *role;
      has_role = true;
    } else if (key == "content") {
      RETURN_IF_ERROR(ReadContent(value, Within(param, key), out));
      has_content = true;
    } else {
      return UnknownParameter(Within(param, key));
    }
  }
  if (has_role && has_content) return Status::Ok();
  const std::string missing = Within(param, has_role ? "content" : "role");
  return InvalidArgument("Missing required parameter: " + Quoted(missing) + ".", missing, "missing_required_parameter");
}

Status UnknownParameter(std::string_view param) {
  return InvalidArgument("Unknown parameter: " + Quoted(param) + ".", std::string(param), "unknown_parameter");
}

Status WrongType(const JsonValue& value, std::string_view param, std::string_view expected) {
  return InvalidArgument("Invalid type for " + Quoted(param) + ": expected " + std::string(expected) + ", but got " +
                             value.KindName() + " instead.",
                         std::string(param), "invalid_type");
}

Status Unsupported(std::string_view param, std::string_view what) {
  return InvalidArgument("This server does not support " + std::string(what) + ".", std::string(param),
                         "unsupported_value");
}

Status ReadBool(const JsonValue& value, std::string_view param, bool* out) {
  if (!value.is_bool()) return WrongType(value, param, "a boolean");
  *out = value.boolean();
  return Status::Ok();
}

Status ReadInteger(const JsonValue& value, std::string_view param, int64_t low, int64_t high, int64_t* out) {
  if (!value.is_number()) return WrongType(value, param, "an integer");
  int64_t integer = value.integer();
  if (!value.is_integer()) {
    const double number = value.number();
    if (number != std::floor(number)) return WrongType(value, param, "an integer");
    if (number < -9.2e18 || number > 9.2e18) {
      return InvalidArgument("Invalid " + Quoted(param) + ": out of range.", std::string(param), "invalid_value");
    }
    integer = static_cast<int64_t>(number);
  }
  if (integer < low || integer > high) {
    return InvalidArgument("Invalid " + Quoted(param) + ": " + std::to_string(integer) + " is not in [" +
                               std::to_string(low) + ", " + std::to_string(high) + "].",
                           std::string(param), "invalid_value");
  }
  *out = integer;
  return Status::Ok();
}

Status ReadNumber(const JsonValue& value, std::string_view param, double* out) {
  if (!value.is_number()) return WrongType(value, param, "a number");
  *out = value.number();
  return Status::Ok();
}

Status ReadString(const JsonValue& value, std::string_view param, std::string* out) {
  if (!value.is_string()) return WrongType(value, param, "a string");
  *out = value.string();
  return Status::Ok();
}

Status ReadMetadata(const JsonValue& value, std::string_view param, Metadata* out) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  if (value.object().size() > static_cast<size_t>(limits::kMaxMetadataEntries)) {
    return InvalidArgument("At most " + std::to_string(limits::kMaxMetadataEntries) + " metadata entries are allowed.",
                           std::string(param), "invalid_value");
  }
  Metadata metadata;
  for (const auto& [key, text] : value.object()) {
    const std::string name = Within(std::string(param), key.substr(0, limits::kMaxMetadataKeyBytes));
    if (!text.is_string()) return WrongType(text, name, "a string");
    if (key.size() > static_cast<size_t>(limits::kMaxMetadataKeyBytes) ||
        text.string().size() > static_cast<size_t>(limits::kMaxMetadataValueBytes)) {
      return InvalidArgument("Metadata keys have at most " + std::to_string(limits::kMaxMetadataKeyBytes) +
                                 " bytes, values " + std::to_string(limits::kMaxMetadataValueBytes) + ".",
                             name, "string_above_max_length");
    }
    metadata.emplace_back(key, text.string());
  }
  *out = std::move(metadata);
  return Status::Ok();
}

Status ReadWindow(const JsonValue& value, std::string_view param, WindowOverrides* out) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  for (const auto& [key, field] : value.object()) {
    if (field.is_null()) continue;
    const std::string name = Within(std::string(param), key);
    int64_t integer = 0;
    if (key == "memory_len") {
      RETURN_IF_ERROR(ReadInteger(field, name, 1, INT64_MAX, &integer));
      out->memory_len = integer;
    } else if (key == "session_len") {
      RETURN_IF_ERROR(ReadInteger(field, name, 1, INT64_MAX, &integer));
      out->session_len = integer;
    } else if (key == "adapter") {
      RETURN_IF_ERROR(ReadString(field, name, &out->adapter));
    } else if (key == "eviction") {
      if (!field.is_string()) return WrongType(field, name, "a string");
      if (field.string() == "turn") {
        out->eviction = Eviction::kTurn;
      } else if (field.string() == "token") {
        out->eviction = Eviction::kToken;
      } else {
        return InvalidArgument("Invalid value: " + Quoted(field.string()) + ". Supported values are: 'turn', 'token'.",
                               name, "invalid_value");
      }
    } else {
      return UnknownParameter(name);
    }
  }
  return Status::Ok();
}

Status ReadModelName(std::string_view name, std::string_view param, const SessionTableOptions& options,
                     std::optional<std::string>* adapter) {
  if (name.empty()) return Status::Ok();
  const bool model = name == options.model_name;
  if (model || options.NumberOfAdapter(name)) {
    *adapter = model ? "" : std::string(name);
    return Status::Ok();
  }
  constexpr size_t kQuoted = 256;
  std::string have = "'" + options.model_name + "'";
  for (const std::string& other : options.adapters) have += ", '" + other + "'";
  return NotFound(
      "The model '" + std::string(name.substr(0, kQuoted)) + "' does not exist; this server has " + have + ".",
      std::string(param), "model_not_found");
}

const std::string& ModelNameOf(const std::optional<std::string>& adapter, const SessionTableOptions& options) {
  return adapter && !adapter->empty() ? *adapter : options.model_name;
}

Status ReadItems(const JsonValue& value, const std::string& param, std::vector<NewItem>* out) {
  if (!value.is_array()) return WrongType(value, param, "an array");
  if (value.array().size() > static_cast<size_t>(limits::kMaxInputItems)) {
    return InvalidArgument("At most " + std::to_string(limits::kMaxInputItems) + " items are allowed at once.", param,
                           "array_above_max_length");
  }
  for (size_t i = 0; i < value.array().size(); ++i) {
    const JsonValue& item = value.array()[i];
    const JsonValue* type = item.Find("type");
    const bool call = type != nullptr && type->is_string() && type->string() == "function_call";
    const bool joins = call && !out->empty() && out->back().role == ChatRole::kAssistant && !EndsInCutCall(out->back());
    if (!joins) out->emplace_back();
    RETURN_IF_ERROR(ReadItem(item, Within(param, i), &out->back()));
  }
  return Status::Ok();
}

}  // namespace ringside
