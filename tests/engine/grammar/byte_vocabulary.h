// A tokenizer with one token per byte, for grammar tests that encode no text.
#pragma once

#include <string>

#include "engine/text/tokenizer.h"

namespace ringside {

class ByteVocabulary final : public Tokenizer {
 public:
  ByteVocabulary() {
    for (int i = 0; i < 256; ++i) bytes_.push_back(static_cast<char>(i));
  }
  std::optional<std::vector<TokenId>> Encode(std::span<const TextPiece>, int64_t) const override {
    return std::nullopt;
  }
  std::string_view TokenBytes(TokenId id) const override {
    return id >= 0 && id < 256 ? std::string_view(bytes_).substr(static_cast<size_t>(id), 1) : std::string_view();
  }
  std::string_view TokenName(TokenId id) const override { return TokenBytes(id); }
  bool IsSpecial(TokenId) const override { return false; }
  std::optional<TokenId> FindSpecial(std::string_view) const override { return std::nullopt; }
  int64_t vocab_size() const override { return 256; }
  bool strips_leading_space() const override { return false; }

 private:
  std::string bytes_;
};

}  // namespace ringside
