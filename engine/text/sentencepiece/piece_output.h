// Collects the pieces of one text: known ones as ids; characters in no piece as byte tokens or, without those, as the
// unknown token, one per run or one per character. One per text. THREAD: one at a time.
#pragma once

#include <algorithm>
#include <string_view>

#include "engine/text/token_list.h"
#include "engine/text/tokenizer_vocabulary.h"

namespace ringside {

class PieceOutput {
 public:
  /// `unknown`: -1 drops characters that cannot be spelled. REQUIRES: `vocabulary` and `ids` outlive it.
  PieceOutput(const Vocabulary& vocabulary, TokenId unknown, bool fuse_unknown, TokenList* ids)
      : vocabulary_(vocabulary), unknown_(unknown), fuse_unknown_(fuse_unknown), ids_(ids) {}

  void Add(TokenId id) {
    ids_->Add(id);
    after_unknown_ = false;
  }
  /// REQUIRES: `character` is one character.
  void AddUnknown(std::string_view character) {
    const auto token = [&](char c) { return vocabulary_.ByteToken(static_cast<uint8_t>(c)); };
    if (std::ranges::all_of(character, [&](char c) { return token(c) >= 0; })) {
      for (const char c : character) Add(token(c));
    } else if (unknown_ >= 0 && !(fuse_unknown_ && after_unknown_)) {
      Add(unknown_);
      after_unknown_ = true;
    }
  }
  /// False if the rest of the text cannot fit.
  bool HasRoomFor(std::string_view rest) { return ids_->HasRoomFor(rest); }

 private:
  const Vocabulary& vocabulary_;
  const TokenId unknown_;
  const bool fuse_unknown_;
  TokenList* ids_;
  bool after_unknown_ = false;
};

}  // namespace ringside
