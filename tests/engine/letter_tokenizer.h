// A tokenizer of single letters, for tests and simulations of the engine. THREAD: any.
#pragma once

#include "engine/text/tokenizer.h"

namespace ringside {

/// Token i is the byte 'A' + i % 26; no token is special.
class LetterTokenizer : public Tokenizer {
 public:
  explicit LetterTokenizer(int64_t vocab) : vocab_(vocab) {}
  std::optional<std::vector<TokenId>> Encode(std::span<const TextPiece> pieces, int64_t) const override {
    std::vector<TokenId> ids;
    for (const auto& piece : pieces) {
      for (const char c : piece.text) ids.push_back(c - 'A');
    }
    return ids;
  }
  std::string_view TokenBytes(TokenId id) const override {
    return std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZ").substr(static_cast<size_t>(id % 26), 1);
  }
  std::string_view TokenName(TokenId id) const override { return TokenBytes(id); }
  bool IsSpecial(TokenId) const override { return false; }
  std::optional<TokenId> FindSpecial(std::string_view) const override { return std::nullopt; }
  int64_t vocab_size() const override { return vocab_; }
  bool strips_leading_space() const override { return false; }

 private:
  int64_t vocab_;
};

}  // namespace ringside
