// --max-request-mb: at least the limit of text, at most what the budget of bodies has room for several times.
#include <gtest/gtest.h>

#include "ws/config/config.h"

namespace ringside {
namespace {

Result<ParsedConfig> WithLimit(const std::string& value) {
  return ParseConfig({"-m", "m", "--max-request-mb", value}, {});
}

TEST(RequestSizeOptionTest, IsBetweenTheLimitsOfTextAndOfImages) {
  EXPECT_EQ(ParseConfig({"-m", "m"}, {})->config.max_request_mb, 32);
  EXPECT_EQ(WithLimit("4")->config.max_request_mb, 4);
  EXPECT_EQ(WithLimit("64")->config.max_request_mb, 64);
  for (const char* value : {"3", "65", "0", "-1", "much"}) EXPECT_FALSE(WithLimit(value).ok()) << value;
}

}  // namespace
}  // namespace ringside
