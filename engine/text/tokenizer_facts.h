// What every model file leaves to custom about its special tokens: which spellings are markup even where the file calls
// them ordinary, and which tokens end an answer. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/text/tokenizer.h"

namespace ringside {

/// True for spellings that are markup in every known model (<|im_end|>, <start_of_turn>, <s>): no user may write them,
/// even where a file lists them as ordinary tokens.
bool IsMarkupSpelling(std::string_view name);

/// True for special tokens that are a part of what an answer says, its tool calls: their spelling is their text.
bool IsPartOfAnswers(std::string_view name);

/// The byte that SentencePiece's "<0x0A>" stands for.
std::optional<uint8_t> ByteOfToken(std::string_view name);

/// Turns tokens with a markup spelling into control tokens, then adds eos and the well-known turn enders of the
/// vocabulary to `data->end_of_turn`, which may hold ids already; sorted, each once, ids outside the vocabulary
/// dropped.
void CompleteSpecialTokens(TokenizerData* data);

}  // namespace ringside
