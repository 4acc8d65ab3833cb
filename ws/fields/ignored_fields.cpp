#include "ws/fields/ignored_fields.h"

#include <algorithm>

#include "ws/fields/field_readers.h"

namespace ringside {
namespace {

/// A field of another server's API, without which the answer would be another one.
struct ForeignField {
  std::string_view name;
  bool harmless_if_true = false;  // otherwise harmless where it is empty
};

constexpr ForeignField kMeaningful[] = {
    // What form the answer has.
    {"structured_outputs"},
    {"guided_json"},
    {"guided_regex"},
    {"guided_choice"},
    {"guided_grammar"},
    {"grammar"},
    {"json_schema"},
    {"format"},
    {"allowed_token_ids"},
    {"use_beam_search"},
    // What the model reads.
    {"messages"},
    {"prompt"},
    {"functions"},
    {"suffix"},
    {"images"},
    {"documents"},
    {"prompt_embeds"},
    {"chat_template"},
    {"truncate_prompt_tokens"},
    {"continue_final_message"},
    {"add_generation_prompt", true},
    {"lora"},
};

}  // namespace

std::string WithoutIndices(std::string_view param) {
  std::string out;
  bool inside = false;
  for (const char c : param) {
    if (c == ']') inside = false;
    if (!inside) out += c;
    if (c == '[') inside = true;
  }
  return out;
}

Status IgnoredFields::Unknown(std::string_view param) {
  if (strict_) return UnknownParameter(param.substr(0, 2 * kMaxIgnoredNameBytes));
  Add(param);
  return Status::Ok();
}

Status IgnoredFields::UnknownOfRequest(const JsonValue& value, std::string_view param) {
  const std::string_view name = param.substr(param.starts_with(prefix_) ? prefix_.size() : 0);
  const auto* const field = std::ranges::find(kMeaningful, name, &ForeignField::name);
  if (field == std::end(kMeaningful) || strict_) return Unknown(param);
  const bool harmless = field->harmless_if_true ? value.is_bool() && value.boolean() : IsEmpty(value);
  return harmless ? Status::Ok() : Unsupported(param, "'" + std::string(name) + "' here");
}

Status IgnoredFields::Hint(std::string_view param, std::string_view what) {
  if (strict_) return Unsupported(param, what);
  Add(param);
  return Status::Ok();
}

Status IgnoredFields::HintUnlessEmpty(const JsonValue& value, std::string_view param) {
  return IsEmpty(value) ? Status::Ok() : Hint(param, "'" + std::string(param) + "'");
}

void IgnoredFields::Add(std::string_view param) {
  if (names_.size() > kMaxIgnoredNames) return;
  if (param.starts_with(prefix_)) param.remove_prefix(prefix_.size());
  param = param.substr(0, kMaxIgnoredNameBytes);
  std::string kind = WithoutIndices(param);
  if (std::ranges::find(seen_, kind) != seen_.end()) return;
  seen_.push_back(std::move(kind));
  names_.emplace_back(names_.size() < kMaxIgnoredNames ? param : "...");
}

}  // namespace ringside
