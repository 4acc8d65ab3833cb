#include "ws/chat/prompts.h"

#include <algorithm>
#include <cstdint>

#include "engine/text/detokenizer.h"
#include "ws/fields/field_readers.h"

namespace ringside {
namespace {

Status ReadOnePrompt(const JsonValue& value, const std::string& param, std::vector<RawPrompt>* out) {
  constexpr char kExpected[] = "a string, an array of strings, of token ids, or of arrays of token ids";
  RawPrompt prompt;
  if (value.is_string()) {
    prompt.text = value.string();
  } else if (value.is_array() && !value.array().empty() && value.array()[0].is_number()) {
    RETURN_IF_ERROR(ReadTokenIds(value, param, &prompt.tokens));
  } else {
    return WrongType(value, param, kExpected);
  }
  out->push_back(std::move(prompt));
  return Status::Ok();
}

}  // namespace

Status ReadTokenIds(const JsonValue& value, const std::string& param, std::vector<TokenId>* out) {
  if (!value.is_array()) return WrongType(value, param, "an array of token ids");
  out->reserve(value.array().size());
  for (const JsonValue& entry : value.array()) {
    int64_t id = 0;
    RETURN_IF_ERROR(ReadInteger(entry, param, 0, INT32_MAX, &id));
    out->push_back(static_cast<TokenId>(id));
  }
  return Status::Ok();
}

std::string TextOfTokens(std::span<const TokenId> ids, const Tokenizer& tokenizer) {
  Detokenizer detokenizer(tokenizer, tokenizer.strips_leading_space());
  std::string text;
  for (const TokenId id : ids) {
    if (id >= tokenizer.vocab_size()) continue;
    text += tokenizer.IsSpecial(id) ? std::string(tokenizer.TokenName(id)) : detokenizer.Push(id);
  }
  return text + detokenizer.Finish();
}

Status ContinueLastMessage(SessionTable& table, const Caller& caller, const std::string& param, TurnSpec* turn) {
  if (turn->format && turn->format->kind != AnswerFormat::Kind::kText) {
    return Unsupported(param, "the beginning of an answer that must follow a format");
  }
  NewItem begun = std::move(turn->input.back());
  turn->input.pop_back();
  JoinParts("\n", &begun);
  const TextPiece piece{std::move(begun.text), /*markup=*/false};
  if (turn->input.empty()) return InvalidArgument("There is nothing to answer.", param, "invalid_value");
  ASSIGN_OR_RETURN(const SharedList<TokenId> before, table.InputTokens(caller, *turn));
  if (std::ranges::any_of(turn->input, [](const NewItem& item) { return !item.images.empty(); })) {
    return Unsupported(param, "the beginning of an answer to images");  // a prompt of token ids has none
  }
  RawPrompt prompt;
  prompt.tokens = before.From(0);
  ASSIGN_OR_RETURN(const SessionTableOptions* const options, table.OptionsFor(caller, turn->model));
  const std::vector<TokenId> begins = options->tokenizer->EncodeAll({&piece, 1});
  prompt.tokens.insert(prompt.tokens.end(), begins.begin(), begins.end());
  turn->raw = std::move(prompt);
  turn->input.clear();
  return Status::Ok();
}

Status ReadPrompts(const JsonValue& value, const std::string& param, int64_t most, std::vector<RawPrompt>* out) {
  const bool many = value.is_array() && !value.array().empty() && !value.array()[0].is_number();
  if (!many) return ReadOnePrompt(value, param, out);
  if (value.array().size() > static_cast<size_t>(most)) {
    return InvalidArgument("At most " + std::to_string(most) + " prompts are allowed at once.", param,
                           "array_above_max_length");
  }
  for (size_t i = 0; i < value.array().size(); ++i) {
    RETURN_IF_ERROR(ReadOnePrompt(value.array()[i], param + "[" + std::to_string(i) + "]", out));
  }
  return Status::Ok();
}

}  // namespace ringside
