#include "ws/fields/field_table.h"

namespace ringside {

namespace {

bool IsOneOf(const std::vector<std::string>& texts, const JsonValue& value) {
  return value.is_string() && std::ranges::find(texts, value.string()) != texts.end();
}

}  // namespace

Status ReadHint(const Hint& hint, const JsonValue& value, const std::string& param, const FieldContext& context) {
  if (IsOneOf(hint.usual, value) || (IsEmpty(value) && !hint.even_empty)) return Status::Ok();
  return context.ignored->Hint(param, hint.what.empty() ? "'" + param + "'" : hint.what);
}

Status ReadRefused(const Refuse& refuse, const std::string& name, const JsonValue& value, const std::string& param,
                   const FieldContext& context) {
  if (refuse.unknown_if_strict && context.ignored->strict()) return context.ignored->Unknown(param);
  const bool harmless = refuse.harmless_if_true ? value.is_bool() && value.boolean() : IsEmpty(value);
  if (harmless || IsOneOf(refuse.usual, value)) return Status::Ok();
  return Unsupported(param, refuse.unknown_if_strict ? "'" + name + "' here"
                            : refuse.what.empty()    ? "'" + param + "'"
                                                     : refuse.what);
}

const Fields<void>& ForeignFields() {
  static const Fields<void> rows = [] {
    Fields<void> all;
    for (const char* name : {// The form of the answer.
                             "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
                             "grammar", "json_schema", "format", "allowed_token_ids", "use_beam_search",
                             // Input of the model.
                             "messages", "prompt", "functions", "suffix", "images", "documents", "prompt_embeds",
                             "chat_template", "truncate_prompt_tokens", "continue_final_message", "lora"}) {
      all.emplace_back(name, Refuse{.unknown_if_strict = true});
    }
    all.emplace_back("add_generation_prompt", Refuse{.harmless_if_true = true, .unknown_if_strict = true});
    return all;
  }();
  return rows;
}

}  // namespace ringside
