#include "session/history/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace ringside {
namespace {

TEST(PrefixTreeTest, FindsTheLongestSharedPrefix) {
  PrefixTree tree;
  EXPECT_FALSE(tree.Find("abc").longest.has_value());
  tree.Set(1, "abcdef");
  tree.Set(2, "abcxyz");
  tree.Set(3, "ab");
  const PrefixTree::Matches found = tree.Find("abcxq");
  EXPECT_EQ(found.longest->id, 2u);
  EXPECT_EQ(found.longest->shared, 4u);
  EXPECT_EQ(found.whole->id, 3u);
  EXPECT_EQ(found.whole->shared, 2u);
  EXPECT_FALSE(tree.Find("b").longest.has_value());
  EXPECT_FALSE(tree.Find("").longest.has_value());
  EXPECT_FALSE(tree.Find("a").whole.has_value());
}

TEST(PrefixTreeTest, FindsTheFirstOfEqualAndTheLastOfDifferentTexts) {
  PrefixTree tree;
  for (const PrefixTree::Id id : {1u, 2u, 3u}) tree.Set(id, "same");
  EXPECT_EQ(tree.Find("same").whole->id, 1u);
  tree.Set(1, "same");
  EXPECT_EQ(tree.Find("same and more").longest->id, 2u);
  tree.Set(4, "head one");
  tree.Set(5, "head two");
  EXPECT_EQ(tree.Find("head ...").longest->id, 5u);
  tree.Set(4, "head one");
  EXPECT_EQ(tree.Find("head ...").longest->id, 4u);
}

TEST(PrefixTreeTest, StoresASharedPrefixOnce) {
  PrefixTree tree;
  const std::string beginning(100'000, 'x');
  tree.Set(1, beginning);
  const size_t one = tree.bytes();
  for (PrefixTree::Id id = 2; id < 50; ++id) tree.Set(id, beginning + std::to_string(id));
  EXPECT_LT(tree.bytes(), one + one / 2);
  for (PrefixTree::Id id = 1; id < 50; ++id) tree.Erase(id);
  EXPECT_EQ(tree.bytes(), 0u);
}

// Only a few letters, so that texts share prefixes of every length.
TEST(PrefixTreeTest, RandomWalksMatchALinearSearch) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<size_t>(random() % n); };
    const auto text = [&] {
      std::string out(below(12), 'a');
      for (char& c : out) c = static_cast<char>('a' + below(seed % 2 == 0 ? 2 : 200));
      return out;
    };
    PrefixTree tree;
    std::map<PrefixTree::Id, std::string> texts;
    for (int step = 0; step < 300; ++step) {
      const PrefixTree::Id id = below(20);
      if (below(3) == 0) {
        tree.Erase(id);
        texts.erase(id);
      } else {
        // Often the existing text is extended.
        const std::string next = texts.contains(id) && below(2) == 0 ? texts[id] + text() : text();
        tree.Set(id, next);
        texts[id] = next;
      }
      ASSERT_EQ(tree.size(), texts.size());
      const std::string asked = below(2) == 0 && !texts.empty() ? texts.begin()->second + text() : text();
      size_t longest = 0, whole = 0;
      for (const auto& [known, has] : texts) {
        const size_t limit = std::min(has.size(), asked.size());
        const auto shared = static_cast<size_t>(
            std::mismatch(has.begin(), has.begin() + static_cast<ptrdiff_t>(limit), asked.begin()).first - has.begin());
        longest = std::max(longest, shared);
        if (shared == has.size()) whole = std::max(whole, shared);
      }
      const PrefixTree::Matches found = tree.Find(asked);
      ASSERT_EQ(found.longest ? found.longest->shared : 0, longest) << seed << ' ' << step;
      ASSERT_EQ(found.whole ? found.whole->shared : 0, whole) << seed << ' ' << step;
      if (found.longest) {
        ASSERT_EQ(texts.at(found.longest->id).compare(0, longest, asked, 0, longest), 0);
      }
      if (found.whole) {
        ASSERT_EQ(texts.at(found.whole->id), asked.substr(0, whole));
      }
    }
    for (PrefixTree::Id id = 0; id < 20; ++id) tree.Erase(id);
    ASSERT_EQ(tree.bytes(), 0u);
  }
}

}  // namespace
}  // namespace ringside
