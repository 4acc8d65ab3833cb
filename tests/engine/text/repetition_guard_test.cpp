#include "engine/text/repetition_guard.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ringside {
namespace {

/// The number of tokens after which `token(i)`, i = 0, 1, ..., is detected as a loop; -1 = not within `most`.
template <class Token>
int64_t LoopsAfter(Token token, int64_t most = 8192) {
  RepetitionGuard guard;
  for (int64_t i = 0; i < most; ++i) {
    if (guard.Push(static_cast<TokenId>(token(i)))) return i + 1;
  }
  return -1;
}

TEST(RepetitionGuard, CycleIsALoopAfterEightRounds) {
  for (const int64_t cycle : {1, 2, 3, 7, 31, 63, 64}) {
    EXPECT_EQ(LoopsAfter([&](int64_t i) { return i % cycle; }), 515) << cycle;
  }
  for (const int64_t cycle : {65, 100, 255, 256}) {
    EXPECT_EQ(LoopsAfter([&](int64_t i) { return i % cycle; }), 2051) << cycle;
  }
  EXPECT_EQ(LoopsAfter([](int64_t i) { return i % 257; }), -1);
}

TEST(RepetitionGuard, IgnoresTextBeforeALoop) {
  const int64_t after = LoopsAfter([](int64_t i) { return i < 3000 ? i : 9000 + i % 20; });
  EXPECT_GT(after, 3000 + 400);
  EXPECT_LE(after, 3000 + 515);
}

// "They make their own food, which is their own. They make their own homes, which is their own. ..."
TEST(RepetitionGuard, SentencesThatVaryByAWordAreALoop) {
  std::mt19937 random(1);
  TokenId word = 0;
  const auto sentence = [&](int64_t i) {
    if (i % 18 == 6) word = static_cast<TokenId>(100 + random() % 6);
    return static_cast<int64_t>(i % 18 == 6 ? word : i % 18);
  };
  EXPECT_EQ(LoopsAfter(sentence), 515);
}

TEST(RepetitionGuard, ListsAndTextAreNotLoops) {
  EXPECT_EQ(LoopsAfter([](int64_t i) { return i % 8 == 7 ? i : i % 8; }), -1) << "numbered lines";
  EXPECT_EQ(LoopsAfter([](int64_t i) { return i % 20 == 9 || i % 20 == 15 ? i : i % 20; }), -1) << "records";
  EXPECT_EQ(LoopsAfter([](int64_t i) { return i; }), -1);
  std::mt19937 random(2);
  EXPECT_EQ(LoopsAfter([&](int64_t) { return random() % 10; }), -1) << "digits";
}

}  // namespace
}  // namespace ringside
