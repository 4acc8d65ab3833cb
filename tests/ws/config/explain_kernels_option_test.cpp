// --explain-kernels prints and exits, whatever the other settings.
#include <gtest/gtest.h>

#include "ws/config/config.h"

namespace ringside {
namespace {

TEST(ExplainKernelsOption, PrintsThePlanOfALayer) {
  const Result<ParsedConfig> parsed = ParseConfig({"--explain-kernels", "32,4096,4096,Q4_K"}, {});
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed->print.starts_with("layer "));
  EXPECT_NE(parsed->print.find("BlockQuantGemm"), std::string::npos);
}

TEST(ExplainKernelsOption, RefusesAnUnknownLayer) {
  const Result<ParsedConfig> parsed = ParseConfig({"--explain-kernels", "32,4096,4096,Q9_K"}, {});
  EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(parsed.status().message().find("Q9_K"), std::string::npos);
}

}  // namespace
}  // namespace ringside
