#include "ws/fields/context_edit_fields.h"

#include <algorithm>
#include <limits>

#include "base/limits.h"
#include "ws/fields/field_readers.h"

namespace ringside {
namespace {

constexpr std::string_view kClearToolUses = "clear_tool_uses_20250919", kClearThinking = "clear_thinking_20251015",
                           kCompact = "compact_20260112";

std::string EditType(const JsonValue& value) {
  const JsonValue* type = value.Find("type");
  return type != nullptr && type->is_string() ? type->string() : "";
}

/// {"type": one of `types`, "value": at least `low`}; returns the index of the type.
Status ReadAmount(const JsonValue& value, const std::string& param, const std::vector<std::string>& types, int64_t low,
                  IgnoredFields* ignored, size_t* type, int64_t* out) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  const auto found = std::ranges::find(types, EditType(value));
  if (found == types.end()) {
    std::string known = "'" + types.front() + "'";
    for (size_t i = 1; i < types.size(); ++i) known += ", '" + types[i] + "'";
    return InvalidArgument("Supported types are: " + known + ".", param + ".type", "invalid_value");
  }
  *type = static_cast<size_t>(found - types.begin());
  const JsonValue* amount = value.Find("value");
  if (amount == nullptr) return MissingParameter(param + ".value");
  for (const auto& [key, field] : value.object()) {
    if (key != "type" && key != "value") RETURN_IF_ERROR(ignored->Unknown(param + "." + key));
  }
  return ReadInteger(*amount, param + ".value", low, std::numeric_limits<int32_t>::max(), out);
}

Status ReadNames(const JsonValue& value, const std::string& param, std::vector<std::string>* out) {
  if (!value.is_array()) return WrongType(value, param, "an array of names");
  if (value.array().size() > static_cast<size_t>(limits::kMaxTools)) {
    return InvalidArgument("At most " + std::to_string(limits::kMaxTools) + " names are allowed.", param,
                           "array_above_max_length");
  }
  for (size_t i = 0; i < value.array().size(); ++i) {
    RETURN_IF_ERROR(ReadString(value.array()[i], param + "[" + std::to_string(i) + "]", &out->emplace_back()));
  }
  return Status::Ok();
}

Status ReadToolUsesField(const JsonValue& value, const std::string& key, const std::string& param,
                         IgnoredFields* ignored, ClearToolUses* out) {
  size_t type = 0;
  if (key == "trigger") {
    RETURN_IF_ERROR(ReadAmount(value, param, {"input_tokens", "tool_uses"}, 1, ignored, &type, &out->trigger));
    out->counts_uses = type == 1;
    return Status::Ok();
  }
  if (key == "keep") return ReadAmount(value, param, {"tool_uses"}, 0, ignored, &type, &out->keep);
  if (key == "clear_at_least") {
    return ReadAmount(value, param, {"input_tokens"}, 0, ignored, &type, &out->clear_at_least);
  }
  if (key == "exclude_tools") return ReadNames(value, param, &out->excluded);
  if (key == "clear_tool_inputs") {
    return value.is_array() ? ReadNames(value, param, &out->cleared_inputs)
                            : ReadBool(value, param, &out->clears_inputs);
  }
  return ignored->Unknown(param);
}

Status ReadThinkingField(const JsonValue& value, const std::string& key, const std::string& param,
                         IgnoredFields* ignored, ClearThinking* out) {
  if (key != "keep") return ignored->Unknown(param);
  if ((value.is_string() && value.string() == "all") || EditType(value) == "all") {
    out->keep = -1;
    return Status::Ok();
  }
  size_t type = 0;
  return ReadAmount(value, param, {"thinking_turns"}, 1, ignored, &type, &out->keep);
}

Status ReadCompactField(const JsonValue& value, const std::string& key, const std::string& param,
                        IgnoredFields* ignored, CompactionEdit* out) {
  size_t type = 0;
  if (key == "trigger") return ReadAmount(value, param, {"input_tokens"}, 1, ignored, &type, &out->trigger);
  if (key == "pause_after_compaction") return ReadBool(value, param, &out->pauses);
  return key == "instructions" ? ReadString(value, param, &out->instructions) : ignored->Unknown(param);
}

template <class Edit>
using EditReader = Status (*)(const JsonValue&, const std::string&, const std::string&, IgnoredFields*, Edit*);

bool Has(const ContextEditFields& fields, const ClearToolUses*) {
  return std::ranges::any_of(fields.edits,
                             [](const auto& edit) { return std::holds_alternative<ClearToolUses>(edit); });
}
bool Has(const ContextEditFields& fields, const ClearThinking*) {
  return std::ranges::any_of(fields.edits,
                             [](const auto& edit) { return std::holds_alternative<ClearThinking>(edit); });
}
bool Has(const ContextEditFields& fields, const CompactionEdit*) { return fields.compaction.has_value(); }

void Add(ContextEdit edit, ContextEditFields* out) { out->edits.push_back(std::move(edit)); }
void Add(CompactionEdit edit, ContextEditFields* out) { out->compaction = std::move(edit); }

template <class Edit>
Status ReadEdit(const JsonValue& value, const std::string& param, EditReader<Edit> read, IgnoredFields* ignored,
                ContextEditFields* out) {
  Edit edit;
  if (Has(*out, &edit)) {
    return InvalidArgument("An edit of this type is there already.", param + ".type", "invalid_value");
  }
  for (const auto& [key, field] : value.object()) {
    if (key == "type" || field.is_null()) continue;
    RETURN_IF_ERROR(read(field, key, param + "." + key, ignored, &edit));
  }
  Add(std::move(edit), out);
  return Status::Ok();
}

}  // namespace

Status ReadContextEdits(const JsonValue& value, const std::string& param, IgnoredFields* ignored,
                        ContextEditFields* out) {
  if (!value.is_object()) return WrongType(value, param, "an object");
  for (const auto& [key, field] : value.object()) {
    if (key != "edits") RETURN_IF_ERROR(ignored->Unknown(param + "." + key));
  }
  const JsonValue* edits = value.Find("edits");
  if (edits == nullptr || edits->is_null()) return Status::Ok();
  if (!edits->is_array()) return WrongType(*edits, param + ".edits", "an array");
  for (size_t i = 0; i < edits->array().size(); ++i) {
    const JsonValue& edit = edits->array()[i];
    const std::string at = param + ".edits[" + std::to_string(i) + "]", type = EditType(edit);
    if (!edit.is_object()) return WrongType(edit, at, "an object");
    if (type == kClearToolUses) {
      RETURN_IF_ERROR(ReadEdit<ClearToolUses>(edit, at, ReadToolUsesField, ignored, out));
    } else if (type == kClearThinking) {
      RETURN_IF_ERROR(ReadEdit<ClearThinking>(edit, at, ReadThinkingField, ignored, out));
    } else if (type == kCompact) {
      RETURN_IF_ERROR(ReadEdit<CompactionEdit>(edit, at, ReadCompactField, ignored, out));
    } else {
      const std::string shown = type.substr(0, kMaxIgnoredNameBytes);
      RETURN_IF_ERROR(ignored->Hint(at + "." + shown, "edits of type '" + shown + "'"));
    }
  }
  return Status::Ok();
}

void WriteAppliedEdits(JsonWriter& json, const std::vector<ContextEdit>& edits,
                       const std::vector<AppliedEdit>& applied) {
  json.Key("context_management").BeginObject().Key("applied_edits").BeginArray();
  for (const AppliedEdit& edit : applied) {
    const bool tools = std::holds_alternative<ClearToolUses>(edits[edit.edit]);
    json.BeginObject().Field("type", tools ? kClearToolUses : kClearThinking);
    json.Field(tools ? "cleared_tool_uses" : "cleared_thinking_turns", edit.count);
    json.Field("cleared_input_tokens", edit.tokens).EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace ringside
