#include "base/cli/near_name.h"

#include <gtest/gtest.h>

#include <string>

namespace ringside {
namespace {

constexpr std::string_view kNames[] = {"model", "memory-len", "session-len", "port"};

TEST(NearName, IsAtMostTwoEditsAway) {
  EXPECT_EQ(NearName("memory-len", kNames), "memory-len");
  EXPECT_EQ(NearName("memroy-len", kNames), "memory-len") << "two replacements";
  EXPECT_EQ(NearName("mdel", kNames), "model");
  EXPECT_EQ(NearName("models", kNames), "model");
  EXPECT_EQ(NearName("memory", kNames), "") << "four deletions";
  EXPECT_EQ(NearName("temperature", kNames), "");
}

TEST(NearName, ShortWordsHaveNone) {
  EXPECT_EQ(NearName("", kNames), "");
  EXPECT_EQ(NearName("po", kNames), "");
  EXPECT_EQ(NearName("por", kNames), "port");
}

TEST(NearName, LongWordsCostNothing) { EXPECT_EQ(NearName(std::string(1 << 24, 'x'), kNames), ""); }

}  // namespace
}  // namespace ringside
