#include "engine/text/repetition_guard.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

/// The number of tokens after which `token(i)`, i = 0, 1, ..., is a loop; -1 = it is none within `most`.
template <class Token>
int64_t LoopsAfter(Token token, int64_t most = 4096) {
  RepetitionGuard guard;
  for (int64_t i = 0; i < most; ++i) {
    if (guard.Push(static_cast<TokenId>(token(i)))) return i + 1;
  }
  return -1;
}

TEST(RepetitionGuard, ACycleIsALoopAfter512Tokens) {
  for (const int64_t cycle : {1, 2, 3, 7, 31, 63, 64}) {
    EXPECT_EQ(LoopsAfter([&](int64_t i) { return i % cycle; }), 512) << cycle;
    EXPECT_EQ(LoopsAfter([&](int64_t i) { return i < 100 ? 1000 + i : i % cycle; }), 612) << cycle << ", text before";
  }
}

TEST(RepetitionGuard, LongerCyclesAndListsAreText) {
  EXPECT_EQ(LoopsAfter([](int64_t i) { return i % 65; }), -1);
  EXPECT_EQ(LoopsAfter([](int64_t i) { return i % 8 == 7 ? i : i % 8; }), -1) << "numbered lines";
  EXPECT_EQ(LoopsAfter([](int64_t i) { return i % 512 == 511 ? 9 : 1; }), -1) << "rows of 511";
  EXPECT_EQ(LoopsAfter([](int64_t i) { return i; }), -1);
}

}  // namespace
}  // namespace ringside
