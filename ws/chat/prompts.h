// Prompts without a chat template, as OpenAI's faces spell them. Pure; any thread.
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

/// A string, an array of token ids, or an array of at most `most` of either, appended. kInvalidArgument with `param`.
Status ReadPrompts(const JsonValue& value, const std::string& param, int64_t most, std::vector<RawPrompt>* out);
/// An array of token ids, perhaps empty. kInvalidArgument with `param`.
Status ReadTokenIds(const JsonValue& value, const std::string& param, std::vector<TokenId>* out);
/// The text of tokens, special ones by their spelling; ids outside the vocabulary add nothing.
std::string TextOfTokens(std::span<const TokenId> ids, const Tokenizer& tokenizer);

/// Makes the turn's last message, the assistant's and without calls, the beginning of its answer: the turn then has a
/// raw prompt, and its answer is what follows. ERRORS: as SessionTable::InputTokens; unsupported_value, naming `param`,
/// for an answer that must follow a format.
Status ContinueLastMessage(SessionTable& table, const Caller& caller, const std::string& param, TurnSpec* turn);

}  // namespace ringside
