#include "ws/chat/anthropic/anthropic_content.h"

#include <algorithm>

#include "base/limits.h"
#include "ws/chat/message_fields.h"
#include "ws/content/compaction.h"
#include "ws/content/returned_reasoning.h"
#include "ws/content/tool_fields.h"
#include "ws/fields/field_readers.h"

namespace ringside {
namespace {

const MessageRules kAnthropicRules{
    .roles = {"user", "assistant", "system"}, .hints = {"citations"}, .ignored = {"cache_control"}, .image = "image"};

std::string At(const std::string& param, size_t index) { return param + "[" + std::to_string(index) + "]"; }

std::string BlockType(const JsonValue& block) {
  const JsonValue* type = block.Find("type");
  return type != nullptr ? type->string() : "";
}

/// Checks the fields of a block except those in `known`.
Status CheckFields(const JsonValue& block, const std::string& param, const std::vector<std::string_view>& known,
                   IgnoredFields* ignored) {
  for (const auto& [key, value] : block.object()) {
    if (value.is_null() || key == "type" || key == "cache_control" || std::ranges::count(known, key) > 0) continue;
    const std::string at = param + "." + key;
    // The caller of a call is the model itself.
    if (key == "caller" && BlockType(value) == "direct") continue;
    RETURN_IF_ERROR(key == "toolset_name" ? ignored->HintUnlessEmpty(value, at) : ignored->Unknown(at));
  }
  return Status::Ok();
}

Status ReadToolUse(const JsonValue& block, const std::string& param, IgnoredFields* ignored, NewItem* message) {
  if (message->role != ChatRole::kAssistant) {
    return InvalidArgument("Only the assistant calls tools.", param + ".type", "invalid_value");
  }
  RETURN_IF_ERROR(CheckFields(block, param, {"id", "name", "input"}, ignored));
  const JsonValue* input = block.Find("input");
  if (input == nullptr) return MissingParameter(param + ".input");
  if (!input->is_object()) return WrongType(*input, param + ".input", "an object");
  return AddCall({.name = block.Find("name"), .arguments = input, .id = block.Find("id")}, param, "id", message);
}

Status ReadToolResult(const JsonValue& block, const std::string& param, IgnoredFields* ignored, NewItem* out) {
  RETURN_IF_ERROR(CheckFields(block, param, {"tool_use_id", "content", "is_error"}, ignored));
  const JsonValue *id = block.Find("tool_use_id"), *content = block.Find("content");
  out->role = ChatRole::kTool;
  if (id == nullptr) return MissingParameter(param + ".tool_use_id");
  RETURN_IF_ERROR(ReadCallId(*id, param + ".tool_use_id", &out->call_ids));
  return content == nullptr ? Status::Ok() : ReadText(*content, param + ".content", kAnthropicRules, ignored, out);
}

/// Appends an earlier answer's reasoning. Only our own opaque text can be decoded.
Status ReadThinking(const JsonValue& block, const std::string& param, const std::string& type, IgnoredFields* ignored,
                    NewItem* message) {
  const bool redacted = type == "redacted_thinking";
  const JsonValue* const text = redacted ? nullptr : block.Find("thinking");
  const JsonValue* const opaque = block.Find(redacted ? "data" : "signature");
  std::string thought = text != nullptr ? text->string() : "";
  if (thought.empty() && opaque != nullptr) thought = DecodeReasoning(opaque->string()).value_or("");
  if (thought.empty() || message->role != ChatRole::kAssistant) {
    return ignored->Hint(param + "." + type, "this content of type '" + type + "'");
  }
  AddReasoning(thought, message);
  return Status::Ok();
}

/// Parses the summary that replaces all earlier messages: our opaque text, otherwise the text itself.
Status ReadCompactionBlock(const JsonValue& block, const std::string& param, IgnoredFields* ignored,
                           std::vector<NewItem>* history) {
  RETURN_IF_ERROR(CheckFields(block, param, {"content", "encrypted_content", "signature", "tool_changes"}, ignored));
  const JsonValue *content = block.Find("content"), *opaque = block.Find("encrypted_content");
  if (opaque != nullptr && ReadCompaction(opaque->string(), param + ".encrypted_content", ignored, history).ok()) {
    return Status::Ok();
  }
  if (content == nullptr) return Status::Ok();  // the compaction failed
  std::string text;
  RETURN_IF_ERROR(ReadString(*content, param + ".content", &text));
  if (text.empty()) return InvalidArgument("A summary must not be empty.", param + ".content", "invalid_value");
  history->resize(CountLeadingSystem(*history));
  history->push_back(SummaryItem(text));
  return Status::Ok();
}

Status ReadBlocks(const JsonValue& content, const std::string& param, ChatRole role, IgnoredFields* ignored,
                  std::vector<NewItem>* out) {
  // The text of one item; calls end the assistant's.
  NewItem said{.role = role};
  bool any = content.array().empty();
  for (size_t i = 0; i < content.array().size(); ++i) {
    const JsonValue& block = content.array()[i];
    const std::string at = At(param, i), type = BlockType(block);
    if (type == "thinking" || type == "redacted_thinking") {
      RETURN_IF_ERROR(ReadThinking(block, at, type, ignored, &said));
      any = any || !said.reasoning.empty();
    } else if (type == "compaction" && role == ChatRole::kAssistant) {
      RETURN_IF_ERROR(ReadCompactionBlock(block, at, ignored, out));
      said = {.role = role};
      any = false;
    } else if (type == "tool_use") {
      RETURN_IF_ERROR(ReadToolUse(block, at, ignored, &said));
      any = true;
    } else if (type == "tool_result" && role == ChatRole::kUser) {
      if (any) out->push_back(std::exchange(said, {.role = role}));
      any = false;
      RETURN_IF_ERROR(ReadToolResult(block, at, ignored, &out->emplace_back()));
    } else {
      if (said.calls_at >= 0) return Unsupported(at, "text behind a tool call in one message");
      RETURN_IF_ERROR(ReadTextPart(block, at, kAnthropicRules, ignored, &said));
      any = true;
    }
  }
  if (any) out->push_back(std::move(said));
  return Status::Ok();
}

}  // namespace

Status ReadAnthropicText(const JsonValue& value, const std::string& param, IgnoredFields* ignored, NewItem* out) {
  return ReadText(value, param, kAnthropicRules, ignored, out);
}

Status ReadAnthropicMessages(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                             std::vector<NewItem>* out) {
  if (!value.is_array()) return WrongType(value, param, "an array of messages");
  if (value.array().empty())
    return InvalidArgument("'" + param + "' must contain at least one message.", param, "invalid_value");
  for (size_t i = 0; i < value.array().size(); ++i) {
    const JsonValue& message = value.array()[i];
    const std::string at = At(param, i);
    const JsonValue* content = message.Find("content");
    NewItem item;
    // A list may contain block types of this protocol only; everything else is common.
    if (content == nullptr || !content->is_array()) {
      RETURN_IF_ERROR(ReadMessage(message, at, kAnthropicRules, ignored, &item));
      out->push_back(std::move(item));
      continue;
    }
    RETURN_IF_ERROR(ReadMessageRole(message, at, kAnthropicRules, ignored, &item.role));
    RETURN_IF_ERROR(ReadBlocks(*content, at + ".content", item.role, ignored, out));
  }
  return Status::Ok();
}

Status ReadAnthropicTools(const JsonValue& value, const std::string& param, IgnoredFields* ignored, ToolSet* out) {
  if (!value.is_array()) return WrongType(value, param, "an array of tools");
  if (value.array().size() > static_cast<size_t>(limits::kMaxTools)) {
    return InvalidArgument("At most " + std::to_string(limits::kMaxTools) + " tools are allowed.", param,
                           "array_above_max_length");
  }
  out->schema_param = ".input_schema";
  for (size_t i = 0; i < value.array().size(); ++i) {
    const JsonValue& tool = value.array()[i];
    const std::string at = At(param, i);
    if (!tool.is_object()) return WrongType(tool, at, "an object");
    const std::string type = BlockType(tool);
    if (!type.empty() && type != "custom") {  // hosted tools
      const std::string shown = type.substr(0, 64);
      RETURN_IF_ERROR(ignored->Hint(at + "." + shown, "tools of type '" + shown + "'"));
      continue;
    }
    for (const auto& [key, field] : tool.object()) {
      static constexpr std::string_view kKnown[] = {"type", "name", "description", "strict", "cache_control",
                                                    "input_schema",
                                                    // Fields without effect on the prompt.
                                                    "input_examples", "eager_input_streaming"};
      if (field.is_null() || std::ranges::count(kKnown, key) > 0) continue;
      const std::string name = at + "." + key;
      const bool hint = key == "defer_loading" || key == "allowed_callers";
      RETURN_IF_ERROR(hint ? ignored->HintUnlessEmpty(field, name) : ignored->Unknown(name));
    }
    if (tool.Find("input_schema") == nullptr) return MissingParameter(at + ".input_schema");
    RETURN_IF_ERROR(AddTool({.name = tool.Find("name"),
                             .description = tool.Find("description"),
                             .parameters = tool.Find("input_schema"),
                             .strict = tool.Find("strict")},
                            at, "input_schema", /*strict_default=*/false, out));
  }
  return Status::Ok();
}

Status ReadAnthropicToolChoice(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                               ToolChoice* out) {
  using Mode = ToolChoice::Mode;
  if (!value.is_object()) return WrongType(value, param, "an object");
  const std::string type = BlockType(value);
  bool one = false, given = false;
  for (const auto& [key, field] : value.object()) {
    if (field.is_null() || key == "type" || (key == "name" && type == "tool")) continue;
    const std::string at = param + "." + key;
    given |= key == "disable_parallel_tool_use";
    RETURN_IF_ERROR(key == "disable_parallel_tool_use" ? ReadBool(field, at, &one) : ignored->Unknown(at));
  }
  out->several &= !one;
  out->parallel = given && !one;
  if (type == "auto" || type == "none" || type == "any") {
    out->mode = type == "auto" ? Mode::kAuto : type == "none" ? Mode::kNone : Mode::kRequired;
    return Status::Ok();
  }
  if (type != "tool") {
    return InvalidArgument("Supported values are: 'auto', 'any', 'tool' and 'none'.", param + ".type", "invalid_value");
  }
  const JsonValue* name = value.Find("name");
  if (name == nullptr) return MissingParameter(param + ".name");
  out->mode = Mode::kRequired;
  return ReadString(*name, param + ".name", &out->names.emplace_back());
}

}  // namespace ringside
