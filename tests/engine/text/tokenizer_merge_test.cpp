// The merge against its definition: while a pair can be merged, merge the one with the lowest rank, the leftmost if
// equal.
#include "engine/text/tokenizer_merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

// Merges one pair at a time; a scan of all pairs finds the next.
std::vector<TokenId> MergeOneByOne(const MergeTable& table, std::vector<TokenId> symbols) {
  while (true) {
    MergeTable::Merge best;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const MergeTable::Merge merge = table.Find(symbols[i], symbols[i + 1]);
      if (merge.merged >= 0 && (best.merged < 0 || merge.rank < best.rank)) {
        best = merge;
        at = i;
      }
    }
    if (best.merged < 0) return symbols;
    symbols[at] = best.merged;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

// A vocabulary grown from `letters` by joining existing tokens; ranks in order of creation (as from training), or at
// random with many ties (as scores may have).
class RandomMerges {
 public:
  RandomMerges(std::mt19937& random, int letters, int count, bool in_order) : table_(static_cast<size_t>(count)) {
    for (int i = 0; i < letters; ++i) Id(std::string(1, static_cast<char>('a' + i)));
    for (int i = 0; i < count; ++i) {
      const std::string left = spellings_[random() % spellings_.size()],
                        right = spellings_[random() % spellings_.size()];
      if (left.size() + right.size() > 12) continue;
      const auto rank = static_cast<uint32_t>(in_order ? i : random() % 16);
      const TokenId left_id = Id(left), right_id = Id(right);
      table_.Add(left_id, right_id, {rank, Id(left + right)}, static_cast<uint8_t>(left.back()),
                 static_cast<uint8_t>(right.front()));
    }
  }
  const MergeTable& table() const { return table_; }

 private:
  TokenId Id(const std::string& spelling) {
    const auto [at, added] = ids_.emplace(spelling, static_cast<TokenId>(ids_.size()));
    if (added) spellings_.push_back(spelling);
    return at->second;
  }
  std::map<std::string, TokenId> ids_;
  std::vector<std::string> spellings_;
  MergeTable table_;
};

std::vector<TokenId> RandomSymbols(std::mt19937& random, int letters, size_t length) {
  std::vector<TokenId> symbols(length);
  const size_t period = random() % 3 == 0 ? 1 + random() % 7 : length;  // a third are periodic
  for (size_t i = 0; i < length; ++i) {
    symbols[i] = i < period ? static_cast<TokenId>(random() % static_cast<uint32_t>(letters)) : symbols[i - period];
  }
  return symbols;
}

TEST(MergeTable, MatchesSequentialMergesOnShortWords) {
  std::mt19937 random(1);
  int changed = 0;
  for (int round = 0; round < 3000; ++round) {
    const int letters = 1 + static_cast<int>(random() % 4);
    const RandomMerges merges(random, letters, 1 + static_cast<int>(random() % 40), random() % 2 == 0);
    const std::vector<TokenId> word = RandomSymbols(random, letters, random() % 60);
    std::vector<TokenId> got = word;
    merges.table().Apply(&got);
    ASSERT_EQ(got, MergeOneByOne(merges.table(), word)) << "round " << round;
    changed += got != word;
  }
  EXPECT_GT(changed, 2000);
}

// Long enough for the priority queue.
TEST(MergeTable, MatchesSequentialMergesOnLongWords) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const int letters = 1 + static_cast<int>(random() % 4);
    const RandomMerges merges(random, letters, 1 + static_cast<int>(random() % 40), random() % 2 == 0);
    const std::vector<TokenId> word = RandomSymbols(random, letters, 1024 + random() % 600);
    std::vector<TokenId> got = word;
    merges.table().Apply(&got);
    ASSERT_EQ(got, MergeOneByOne(merges.table(), word)) << "round " << round;
  }
}

// A text split where no merge joins gives the same result.
TEST(MergeTable, TextMaySplitWhereNothingMerges) {
  std::mt19937 random(3);
  int cuts = 0;
  for (int round = 0; round < 1000; ++round) {
    const RandomMerges merges(random, 6, 8, random() % 2 == 0);
    const std::vector<TokenId> text = RandomSymbols(random, 6, 80);
    std::vector<TokenId> got, part;
    const auto flush = [&] {
      merges.table().Apply(&part);
      got.insert(got.end(), part.begin(), part.end());
      part.clear();
    };
    for (size_t i = 0; i < text.size(); ++i) {
      const auto letter = [&](size_t at) { return static_cast<uint32_t>('a' + text[at]); };
      if (i > 0 && !merges.table().MayJoin(letter(i - 1), letter(i))) {
        flush();
        ++cuts;
      }
      part.push_back(text[i]);
    }
    flush();
    ASSERT_EQ(got, MergeOneByOne(merges.table(), text)) << "round " << round;
  }
  EXPECT_GT(cuts, 10'000);
}

}  // namespace
}  // namespace ringside
