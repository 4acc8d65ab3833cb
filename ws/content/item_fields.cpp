#include "ws/content/item_fields.h"

#include <algorithm>

#include "base/limits.h"
#include "ws/content/compaction.h"
#include "ws/content/image_fields.h"
#include "ws/content/returned_reasoning.h"
#include "ws/content/tool_fields.h"
#include "ws/fields/field_readers.h"

namespace ringside {
namespace {

std::string Within(const std::string& param, std::string_view key) { return param + "." + std::string(key); }
std::string Within(const std::string& param, size_t index) { return param + "[" + std::to_string(index) + "]"; }

// Appends one part of a message's content: a text or an image. A refusal is treated as text.
Status ReadPart(const JsonValue& part, const std::string& param, IgnoredFields* ignored, NewItem* out) {
  if (!part.is_object()) return WrongType(part, param, "an object");
  const JsonValue* type = part.Find("type");
  if (type == nullptr || !type->is_string()) return MissingParameter(Within(param, "type"));
  const std::string& name = type->string();
  if (name == "input_image") {
    return ReadImagePart(part, param, Unsupported(Within(param, "type"), "content of type " + Quoted(name)), ignored,
                         out);
  }
  if (name != "input_text" && name != "output_text" && name != "text" && name != "refusal") {
    return Unsupported(Within(param, "type"), "content of type " + Quoted(name.substr(0, kQuotedBytes)));
  }
  const std::string_view text_key = name == "refusal" ? "refusal" : "text";
  bool has_text = false;
  for (const auto& [key, value] : part.object()) {
    if (value.is_null() || key == "type" || key == "annotations" || key == "logprobs") continue;
    if (key != text_key) {
      RETURN_IF_ERROR(ignored->Unknown(Within(param, key)));
      continue;
    }
    if (!value.is_string()) return WrongType(value, Within(param, key), "a string");
    AddPart(value.string(), out);
    has_text = true;
  }
  return has_text ? Status::Ok() : MissingParameter(Within(param, text_key));
}

/// Item types of hosted tools, which leave nothing for the model to read.
bool IsLeftOut(const std::string& type) {
  static constexpr std::string_view kLeftOut[] = {"web_search_call", "file_search_call", "mcp_list_tools"};
  return std::ranges::find(kLeftOut, type) != std::end(kLeftOut);
}

std::string PartTexts(const JsonValue* parts) {
  std::string text;
  if (parts == nullptr) return text;
  for (const JsonValue& part : parts->array()) {
    const JsonValue* const piece = part.Find("text");
    if (piece == nullptr || piece->string().empty()) continue;
    if (!text.empty()) text += "\n\n";
    text += piece->string();
  }
  return text;
}

/// The reasoning of such an item: its text, our opaque text, or its summary. Empty for another server's opaque text.
std::string ReasoningOf(const JsonValue& item) {
  if (std::string text = PartTexts(item.Find("content")); !text.empty()) return text;
  const JsonValue* const opaque = item.Find("encrypted_content");
  std::optional<std::string> text = opaque != nullptr ? DecodeReasoning(opaque->string()) : std::nullopt;
  return text ? *std::move(text) : PartTexts(item.Find("summary"));
}

bool IsCall(std::string_view type) { return type == "function_call" || type == "custom_tool_call"; }

std::string TextOf(const JsonValue& item, std::string_view key) {
  const JsonValue* value = item.Find(key);
  return value != nullptr ? value->string() : "";
}
std::string PartType(const JsonValue& item) { return TextOf(item, "type"); }
std::string RoleOf(const JsonValue& item) { return TextOf(item, "role"); }

}  // namespace

Status ReadContent(const JsonValue& content, const std::string& param, IgnoredFields* ignored, NewItem* out) {
  if (content.is_string()) {
    out->text = content.string();
    return Status::Ok();
  }
  if (!content.is_array()) return WrongType(content, param, "a string or an array of content parts");
  for (size_t i = 0; i < content.array().size(); ++i) {
    RETURN_IF_ERROR(ReadPart(content.array()[i], Within(param, i), ignored, out));
  }
  return Status::Ok();
}

Status ReadItem(const JsonValue& item, const std::string& param, IgnoredFields* ignored, NewItem* out) {
  if (!item.is_object()) return WrongType(item, param, "an object");
  if (const JsonValue* type = item.Find("type"); type != nullptr) {
    if (!type->is_string()) return WrongType(*type, Within(param, "type"), "a string");
    if (IsCall(type->string())) return ReadFunctionCall(item, param, ignored, out);
    if (type->string() == "function_call_output" || type->string() == "custom_tool_call_output") {
      return ReadFunctionCallOutput(item, param, ignored, out);
    }
    if (type->string() != "message") {
      return Unsupported(Within(param, "type"), "an item of type " + Quoted(type->string().substr(0, kQuotedBytes)));
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
        return InvalidArgument("Invalid value: " + Quoted(value.string().substr(0, kQuotedBytes)) +
                                   ". Supported values are: 'assistant', 'system', 'developer', and 'user'.",
                               Within(param, key), "invalid_value");
      }
      out->role = *role;
      has_role = true;
    } else if (key == "content") {
      RETURN_IF_ERROR(ReadContent(value, Within(param, key), ignored, out));
      has_content = true;
    } else {
      RETURN_IF_ERROR(ignored->Unknown(Within(param, key)));
    }
  }
  return has_role && has_content ? Status::Ok() : MissingParameter(Within(param, has_role ? "content" : "role"));
}

Status ReadItems(const JsonValue& value, const std::string& param, IgnoredFields* ignored, std::vector<NewItem>* out) {
  if (!value.is_array()) return WrongType(value, param, "an array");
  if (value.array().size() > static_cast<size_t>(limits::kMaxInputItems)) {
    return InvalidArgument("At most " + std::to_string(limits::kMaxInputItems) + " items are allowed at once.", param,
                           "array_above_max_length");
  }
  bool reasons = false;  // the last item of `out` contains only reasoning so far
  for (size_t i = 0; i < value.array().size(); ++i) {
    const JsonValue& item = value.array()[i];
    const std::string type = PartType(item), at = Within(param, i);
    if (IsLeftOut(type)) {
      RETURN_IF_ERROR(ignored->Hint(Within(at, type), "an item of type " + Quoted(type)));
      continue;
    }
    if (type == "compaction") {
      if (!item.Find("encrypted_content")) return MissingParameter(Within(at, "encrypted_content"));
      RETURN_IF_ERROR(ReadCompaction(TextOf(item, "encrypted_content"), Within(at, "encrypted_content"), ignored, out));
      reasons = false;
      continue;
    }
    if (type == "reasoning") {
      const std::string text = ReasoningOf(item);
      if (text.empty()) RETURN_IF_ERROR(ignored->Hint(Within(at, type), "this item of type " + Quoted(type)));
      if (!text.empty() && !std::exchange(reasons, true)) out->push_back({.role = ChatRole::kAssistant});
      if (!text.empty()) AddReasoning(text, &out->back());
      continue;
    }
    // The reasoning belongs to the following message or calls.
    const bool joins =
        IsCall(type) && !out->empty() && out->back().role == ChatRole::kAssistant && !EndsInCutCall(out->back());
    const bool own = reasons && (IsCall(type) || RoleOf(item) == "assistant");
    if (!joins && !own) out->emplace_back();
    RETURN_IF_ERROR(ReadItem(item, at, ignored, &out->back()));
    reasons = false;
  }
  return Status::Ok();
}

}  // namespace ringside
