// Parses prompts without a chat template in OpenAI's format. Pure.
// THREAD: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/text/tokenizer.h"
#include "session/table/session_table.h"
#include "session/turn/turn_spec.h"
#include "ws/json/json_value.h"

namespace ringside {

/// Appends the prompts of a string, an array of token ids, or an array of at most `most` of these.
/// ERRORS: kInvalidArgument with `param`.
Status ReadPrompts(const JsonValue& value, const std::string& param, int64_t most, std::vector<RawPrompt>* out);
/// Parses an array of token ids, possibly empty.
/// ERRORS: kInvalidArgument with `param`.
Status ReadTokenIds(const JsonValue& value, const std::string& param, std::vector<TokenId>* out);
/// Decodes tokens, special ones by their spelling; ids outside the vocabulary are skipped.
std::string TextOfTokens(std::span<const TokenId> ids, const Tokenizer& tokenizer);

/// Makes the turn's last message, an assistant's without calls, the start of its answer: the turn gets a raw prompt
/// that ends with it.
/// ERRORS: as SessionTable::InputTokens; unsupported_value, naming `param`, for an answer with a required format.
Status ContinueLastMessage(SessionTable& table, const Caller& caller, const std::string& param, TurnSpec* turn);

}  // namespace ringside
