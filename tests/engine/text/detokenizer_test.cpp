#include "engine/text/detokenizer.h"

#include <gtest/gtest.h>

#include <map>

namespace ringside {
namespace {

// Tokens are given explicitly; ids from 100 on are special.
class TableTokens : public Tokenizer {
 public:
  TableTokens(std::map<TokenId, std::string> table, bool strips) : table_(std::move(table)), strips_(strips) {}
  std::optional<std::vector<TokenId>> Encode(std::span<const TextPiece>, int64_t) const override { return {}; }
  std::string_view TokenBytes(TokenId id) const override {
    const auto found = table_.find(id);
    return found == table_.end() ? std::string_view() : std::string_view(found->second);
  }
  std::string_view TokenName(TokenId id) const override { return TokenBytes(id); }
  bool IsSpecial(TokenId id) const override { return id >= 100; }
  std::optional<TokenId> FindSpecial(std::string_view) const override { return std::nullopt; }
  int64_t vocab_size() const override { return 200; }
  bool strips_leading_space() const override { return strips_; }

 private:
  std::map<TokenId, std::string> table_;
  bool strips_;
};

TEST(Detokenizer, HoldsBackIncompleteCharacters) {
  const TableTokens tokens({{1, "a\xF0\x9F"}, {2, "\x98"}, {3, "\x80 b"}}, false);
  Detokenizer detokenizer(tokens);
  EXPECT_EQ(detokenizer.Push(1), "a");
  EXPECT_EQ(detokenizer.Push(2), "");
  EXPECT_EQ(detokenizer.Push(100), "");  // a special token in between adds nothing and ends nothing
  EXPECT_EQ(detokenizer.Push(3), "\xF0\x9F\x98\x80 b");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(Detokenizer, ReplacesInvalidBytes) {
  const TableTokens tokens({{1, "\xF0\x9F"}, {2, "x"}, {3, "\xFF"}, {4, "\xC3"}, {5, "\xED"}, {6, "\xA0"}}, false);
  Detokenizer detokenizer(tokens);
  EXPECT_EQ(detokenizer.Push(1), "");
  EXPECT_EQ(detokenizer.Push(2), "\uFFFDx");
  EXPECT_EQ(detokenizer.Push(3), "\uFFFD");
  EXPECT_EQ(detokenizer.Push(5), "");
  EXPECT_EQ(detokenizer.Push(6), "\uFFFD\uFFFD");  // a surrogate is two invalid bytes, not one character
  EXPECT_EQ(detokenizer.Push(4), "");
  EXPECT_EQ(detokenizer.Push(1), "\uFFFD");
  EXPECT_EQ(detokenizer.Finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(Detokenizer, DropsTheLeadingSpaceOnceAndOnlyAtTheStart) {
  const TableTokens sentence_piece({{1, " a"}, {2, " "}}, true);
  Detokenizer at_start(sentence_piece, true);
  EXPECT_EQ(at_start.Push(100), "");  // a leading special token changes nothing
  EXPECT_EQ(at_start.Push(1), "a");
  EXPECT_EQ(at_start.Push(1), " a");
  Detokenizer one_space(sentence_piece, true);
  EXPECT_EQ(one_space.Push(2), "");
  EXPECT_EQ(one_space.Push(2), " ");
  Detokenizer in_the_middle(sentence_piece, false);
  EXPECT_EQ(in_the_middle.Push(1), " a");
  const TableTokens byte_level({{1, " a"}}, false);
  Detokenizer keeps(byte_level, true);
  EXPECT_EQ(keeps.Push(1), " a");
}

TEST(Detokenizer, AnUnknownIdAddsNothing) {
  const TableTokens tokens({{1, "a"}}, false);
  Detokenizer detokenizer(tokens);
  EXPECT_EQ(detokenizer.Push(-5), "");
  EXPECT_EQ(detokenizer.Push(1 << 30), "");
  EXPECT_EQ(detokenizer.Push(1), "a");
}

}  // namespace
}  // namespace ringside
