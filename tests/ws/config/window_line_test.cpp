#include "ws/config/window_line.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

TEST(WindowLine, ReportsWhyTheWindowIsLimited) {
  WindowFacts facts{.memory_len = 7936, .pinned_max = 256, .context = 8192, .sessions = 8, .slots = 8};
  EXPECT_EQ(
      DescribeWindow(facts),
      "window: 7936 tokens and up to 256 pinned: the model's context of 8192; 8 sessions fit at full length, in 8 "
      "slots");
  facts.context = 131072;
  facts.sessions = 1;
  EXPECT_EQ(DescribeWindow(facts),
            "window: 7936 tokens and up to 256 pinned: as memory allows, of the model's context of 131072; 1 session "
            "fits at full length, in 8 slots");
  facts.asked = true;
  EXPECT_EQ(DescribeWindow(facts),
            "window: 7936 tokens and up to 256 pinned: --memory-len, of the model's context of 131072; 1 session fits "
            "at full length, in 8 slots");
  facts.context = 0;
  EXPECT_NE(DescribeWindow(facts).find(": --memory-len; "), std::string::npos);
  facts.asked = false;
  EXPECT_NE(DescribeWindow(facts).find(": the model sets no bound; "), std::string::npos);
}

}  // namespace
}  // namespace ringside
