#include "session/ids.h"

#include <gtest/gtest.h>

#include <set>

namespace ringside {
namespace {

TEST(Ids, HaveTheirPrefixAnd22DigitsOfBase62) {
  const std::string id = MakeId("conv_");
  ASSERT_EQ(id.size(), 5U + 22U);
  EXPECT_EQ(id.substr(0, 5), "conv_");
  EXPECT_EQ(id.substr(5).find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
            std::string::npos);
}

TEST(Ids, AreUniqueAndUseEveryDigit) {
  std::set<std::string> seen;
  std::set<char> digits;
  for (int i = 0; i < 5000; ++i) {
    const std::string id = MakeId("r");
    EXPECT_TRUE(seen.insert(id).second);
    for (const char c : id.substr(1)) digits.insert(c);
  }
  EXPECT_EQ(digits.size(), 62U);
}

}  // namespace
}  // namespace ringside
