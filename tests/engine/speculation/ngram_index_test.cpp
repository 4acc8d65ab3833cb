#include "engine/speculation/ngram_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ringside {
namespace {

std::vector<TokenId> Random(size_t n, uint32_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(n);
  for (TokenId& id : tokens) id = static_cast<TokenId>(random() % vocab);
  return tokens;
}

TEST(NgramIndex, FindsNothingInNewText) {
  for (const std::vector<TokenId>& tokens : {std::vector<TokenId>{}, {1}, {1, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}) {
    EXPECT_EQ(NgramIndex().Find(tokens).matched, 0) << tokens.size();
  }
}

TEST(NgramIndex, FindsTheLatestPlaceOfTheLastTokens) {
  NgramIndex index;
  const std::vector<TokenId> tokens{1, 2, 3, 70, 4, 1, 2, 3, 80, 9, 1, 2, 3};
  const NgramIndex::Match match = index.Find(tokens);
  EXPECT_EQ(match.next, 8);
  EXPECT_EQ(match.matched, 3);
  EXPECT_EQ(TokensAfter(tokens, match, 2), (std::vector<TokenId>{80, 9}));
}

TEST(NgramIndex, PrefersTheLongerMatch) {
  NgramIndex index;
  std::vector<TokenId> tokens = Random(20, 1000, 1);
  const std::vector<TokenId> copied(tokens.begin() + 4, tokens.begin() + 14);
  tokens.insert(tokens.end(), {copied[7], copied[8], copied[9], 5000});  // a later place of the last three
  tokens.insert(tokens.end(), copied.begin(), copied.end());
  const NgramIndex::Match match = index.Find(tokens);
  EXPECT_EQ(match.next, 14);
  EXPECT_EQ(match.matched, 10);
}

TEST(NgramIndex, ContinuesAfterATokenThatDiffers) {
  NgramIndex index;
  const std::vector<TokenId> source = Random(60, 1000, 2);
  std::vector<TokenId> tokens = source;
  tokens.insert(tokens.end(), source.begin() + 10, source.begin() + 20);
  EXPECT_EQ(index.Find(tokens).next, 20);
  tokens.push_back(5000);  // in place of source[20]
  EXPECT_EQ(index.Find(tokens).matched, 0);
  tokens.push_back(source[21]);
  EXPECT_EQ(index.Find(tokens).next, 22);
  EXPECT_EQ(index.Find(tokens).matched, 1);
}

TEST(NgramIndex, RepeatsAMatchThatOverlapsTheEnd) {
  NgramIndex index;
  const std::vector<TokenId> tokens{9, 1, 2, 1, 2, 1, 2};
  const NgramIndex::Match match = index.Find(tokens);
  EXPECT_EQ(match.next, 5);
  EXPECT_EQ(TokensAfter(tokens, match, 5), (std::vector<TokenId>{1, 2, 1, 2, 1}));
}

// Against a search through the whole timeline, as it grows by a few tokens at a time.
TEST(NgramIndex, FindsWhatASearchFinds) {
  const std::vector<TokenId> all = Random(3000, 6, 3);
  NgramIndex index;
  int64_t occurred = 0, found = 0;
  for (size_t size = 1; size <= all.size(); size += 1 + size % 5) {
    const auto tokens = std::span(all).first(size);
    bool occurs = false;
    for (size_t end = 3; end < size && !occurs; ++end) {
      occurs = std::ranges::equal(tokens.subspan(end - 3, 3), tokens.last(std::min<size_t>(3, size)));
    }
    const NgramIndex::Match match = index.Find(tokens);
    occurred += occurs ? 1 : 0;
    found += match.matched >= 3 ? 1 : 0;
    ASSERT_LE(match.matched, NgramIndex::kMaxMatched);
    for (int64_t i = 1; i <= match.matched; ++i) {
      ASSERT_EQ(tokens[static_cast<size_t>(match.next - i)], tokens[size - static_cast<size_t>(i)]);
    }
    if (match.matched > 0) {
      ASSERT_LT(match.next, static_cast<int64_t>(size));
    }
  }
  EXPECT_LE(found, occurred);
  EXPECT_GE(found, occurred * 9 / 10) << "few are lost to others with the same hash";
}

TEST(NgramIndex, MemoryIsBounded) {
  NgramIndex index;
  std::vector<TokenId> tokens = Random(1 << 19, 50'000, 4);
  index.Find(tokens);
  const size_t bytes = index.bytes();
  EXPECT_LE(bytes, size_t{2} << 20);
  const std::vector<TokenId> copied(tokens.end() - 1000, tokens.end() - 980);
  tokens.insert(tokens.end(), copied.begin(), copied.end());
  EXPECT_EQ(index.Find(tokens).next, (1 << 19) - 980);
  EXPECT_EQ(index.bytes(), bytes);
}

}  // namespace
}  // namespace ringside
