// A shared list against a vector, and against its own copies, on random walks.
#include "session/chat/timeline/shared_list.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace ringside {
namespace {

struct Pair {
  SharedList<std::string> list;
  std::vector<std::string> vector;
};

void ExpectEqual(const Pair& pair) {
  ASSERT_EQ(pair.list.size(), pair.vector.size());
  EXPECT_EQ(pair.list.From(0), pair.vector);
  EXPECT_TRUE(std::equal(pair.list.begin(), pair.list.end(), pair.vector.begin(), pair.vector.end()));
  const size_t half = pair.vector.size() / 2;
  EXPECT_EQ(pair.list.From(half),
            std::vector<std::string>(pair.vector.begin() + static_cast<ptrdiff_t>(half), pair.vector.end()));
}

TEST(SharedList, MatchesAVectorUnderRandomOperations) {
  std::mt19937 random(1);
  std::vector<Pair> pairs(4);
  for (int step = 0; step < 2000; ++step) {
    Pair& pair = pairs[random() % pairs.size()];
    switch (random() % 4) {
      case 0:
        pair = Pair(pairs[random() % pairs.size()]);
        break;
      case 1: {
        const size_t keep = random() % (pair.vector.size() + 1);
        pair.list.Truncate(keep);
        pair.vector.resize(keep);
        break;
      }
      default:
        for (size_t n = random() % 400; n > 0; --n) {
          pair.vector.push_back(std::to_string(random() % 1000));
          pair.list.push_back(pair.vector.back());
        }
    }
    if (step % 20 != 0) continue;
    for (const Pair& each : pairs) ExpectEqual(each);
    for (const Pair& other : pairs) {
      const auto differ =
          std::mismatch(pair.vector.begin(), pair.vector.end(), other.vector.begin(), other.vector.end());
      EXPECT_EQ(SharedList<std::string>::CommonPrefix(pair.list, other.list),
                static_cast<size_t>(differ.first - pair.vector.begin()));
      EXPECT_EQ(pair.list == other.list, pair.vector == other.vector);
    }
  }
}

TEST(SharedList, CopySharesItsElements) {
  SharedList<std::string> list;
  for (size_t i = 0; i < 3 * SharedList<std::string>::kBlock; ++i) list.push_back("x");
  const SharedList<std::string> copy = list;
  list.push_back("y");
  for (size_t i = 0; i < copy.size(); ++i) EXPECT_EQ(&copy[i], &list[i]) << i;
}

}  // namespace
}  // namespace ringside
