// Conventions about special tokens that model files leave implicit: spellings that are markup even if the file lists
// them as ordinary tokens, and tokens that end an answer. Pure functions. THREAD: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/text/tokenizer.h"

namespace ringside {

/// True for spellings that are markup in every known model (<|im_end|>, <start_of_turn>, <s>): users must not be able
/// to write them, even if a file lists them as ordinary tokens.
bool IsMarkupSpelling(std::string_view name);

/// True for special tokens that are part of an answer's text, such as tool-call markup: their spelling is their text.
bool IsPartOfAnswers(std::string_view name);

/// The byte of a SentencePiece byte token, such as "<0x0A>".
std::optional<uint8_t> ByteOfToken(std::string_view name);

/// Turns tokens with a markup spelling into control tokens, then adds EOS and the well-known turn enders of the
/// vocabulary to `data->end_of_turn`, which may have ids already. The result is sorted and unique, without ids outside
/// the vocabulary.
void CompleteSpecialTokens(TokenizerData* data);

}  // namespace ringside
