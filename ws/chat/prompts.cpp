#include "ws/chat/prompts.h"

#include <cstdint>

#include "ws/openai/responses/responses_fields.h"

namespace ringside {
namespace {

Status ReadTokens(const JsonValue& value, const std::string& param, RawPrompt* out) {
  if (value.array().empty()) return InvalidArgument("A prompt has at least one token.", param, "invalid_value");
  out->tokens.reserve(value.array().size());
  for (const JsonValue& entry : value.array()) {
    int64_t id = 0;
    RETURN_IF_ERROR(ReadInteger(entry, param, 0, INT32_MAX, &id));
    out->tokens.push_back(static_cast<TokenId>(id));
  }
  return Status::Ok();
}

Status ReadPrompt(const JsonValue& value, const std::string& param, std::vector<RawPrompt>* out) {
  constexpr char kExpected[] = "a string, an array of strings, of token ids, or of arrays of token ids";
  RawPrompt prompt;
  if (value.is_string()) {
    prompt.text = value.string();
  } else if (value.is_array() && !value.array().empty() && value.array()[0].is_number()) {
    RETURN_IF_ERROR(ReadTokens(value, param, &prompt));
  } else {
    return WrongType(value, param, kExpected);
  }
  out->push_back(std::move(prompt));
  return Status::Ok();
}

}  // namespace

Status ReadPrompts(const JsonValue& value, const std::string& param, int64_t most, std::vector<RawPrompt>* out) {
  const bool many = value.is_array() && !value.array().empty() && !value.array()[0].is_number();
  if (!many) return ReadPrompt(value, param, out);
  if (value.array().size() > static_cast<size_t>(most)) {
    return InvalidArgument("At most " + std::to_string(most) + " prompts are allowed at once.", param,
                           "array_above_max_length");
  }
  for (size_t i = 0; i < value.array().size(); ++i) {
    RETURN_IF_ERROR(ReadPrompt(value.array()[i], param + "[" + std::to_string(i) + "]", out));
  }
  return Status::Ok();
}

}  // namespace ringside
