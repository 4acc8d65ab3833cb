// Shared by grammar tests: a tokenizer of listed tokens, and a text match.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_cache.h"

namespace ringside {

/// Token i is the i-th of the list; those that start with "<|" are special.
class ListTokenizer final : public Tokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> tokens, bool strips = false)
      : tokens_(std::move(tokens)), strips_(strips) {}
  /// All bytes, then some pieces of JSON and of words, then an end of turn.
  static ListTokenizer OfBytesAndPieces() {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    for (const char* piece : {"{\"",   "\":",  "\": ", "\",",      "\", \"",   "\"}",      "}}",       "],",  "true",
                              "false", "null", "12",   "00",       "0.5",      "-1",       "e1",       "ab",  "abc",
                              "aa",    " a",   "the",  "\xC3\xA9", "\xE2\x82", "\x82\xAC", "\xF0\x9F", "\\n", "\\u",
                              "\\\"",  "[[",   "]]",   "[1",       "a\",\"b",  "name",     "  "}) {
      tokens.emplace_back(piece);
    }
    tokens.emplace_back("<|end|>");
    return ListTokenizer(std::move(tokens));
  }

  std::optional<std::vector<TokenId>> Encode(std::span<const TextPiece>, int64_t) const override {
    return std::nullopt;
  }
  std::string_view TokenBytes(TokenId id) const override { return IsSpecial(id) ? "" : TokenName(id); }
  std::string_view TokenName(TokenId id) const override {
    return id >= 0 && id < vocab_size() ? std::string_view(tokens_[static_cast<size_t>(id)]) : std::string_view();
  }
  bool IsSpecial(TokenId id) const override { return TokenName(id).starts_with("<|"); }
  std::optional<TokenId> FindSpecial(std::string_view) const override { return std::nullopt; }
  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }
  bool strips_leading_space() const override { return strips_; }

 private:
  std::vector<std::string> tokens_;
  bool strips_;
};

inline const ListTokenizer& TestTokenizer() {
  static const ListTokenizer tokenizer = ListTokenizer::OfBytesAndPieces();
  return tokenizer;
}

inline Result<std::shared_ptr<const Grammar>> Compile(AnswerFormat::Kind kind, const std::string& text,
                                                      const Tokenizer& tokenizer = TestTokenizer()) {
  GrammarBudget budget;
  ASSIGN_OR_RETURN(const GrammarSource source, SourceOf({.kind = kind, .text = text, .param = "format"}, budget));
  return Grammar::Make(source, std::make_shared<const GrammarVocabulary>(tokenizer));
}

inline bool Matches(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar);
  return matcher.Append(text).ok() && matcher.may_end();
}

/// The ids that a mask allows.
inline std::vector<TokenId> Allowed(GrammarMatcher& matcher, const Tokenizer& tokenizer) {
  std::vector<uint32_t> mask(static_cast<size_t>(tokenizer.vocab_size() + 31) / 32);
  const Status status = matcher.FillMask(mask);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if ((mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0) ids.push_back(id);
  }
  return ids;
}

}  // namespace ringside
