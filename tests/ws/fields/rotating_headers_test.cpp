#include "ws/fields/rotating_headers.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

TEST(RotatingHeaders, AreSkippedOnlyAtTheStart) {
  EXPECT_EQ(WithoutRotatingHeaders("x-anthropic-billing-header: cc_version=2.1; cch=36ee5;"), "");
  EXPECT_EQ(WithoutRotatingHeaders("x-anthropic-billing-header: cch=1;\n\nBe brief.\nx-anthropic-billing-header: y"),
            "Be brief.\nx-anthropic-billing-header: y");
  EXPECT_EQ(WithoutRotatingHeaders("x-anthropic-billing-header: a\nx-anthropic-billing-header: b\nBe brief."),
            "Be brief.");
  for (const char* text : {"", "Be brief.", " x-anthropic-billing-header: a", "x-anthropic-billing-header", "\n"}) {
    EXPECT_EQ(WithoutRotatingHeaders(text), text);
  }
}

}  // namespace
}  // namespace ringside
