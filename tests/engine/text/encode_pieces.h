// Tokens of a list of pieces. THREAD: tests only.
#pragma once

#include <vector>

#include "engine/text/tokenizer.h"

namespace ringside {

inline std::vector<TokenId> EncodePieces(const Tokenizer& tokenizer, const std::vector<TextPiece>& pieces) {
  return tokenizer.EncodeAll(pieces);
}

}  // namespace ringside
