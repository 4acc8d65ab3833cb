// The traceparent header according to W3C Trace Context, valid and malformed.
#include "base/trace_context.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ringside {
namespace {

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736", kSpan = "00f067aa0ba902b7";
const std::string kGood = "00-" + kTrace + "-" + kSpan + "-01";
const std::string kRandom = "0123456789abcdef0f1e2d3c4b5a6978";

TEST(TraceContext, JoinsAValidTraceAsAChildSpan) {
  const TraceContext trace = JoinTrace(kGood, kRandom);
  EXPECT_EQ(trace.trace_id, kTrace);
  EXPECT_EQ(trace.span_id, "0f1e2d3c4b5a6978");
  EXPECT_TRUE(trace.sampled);
  EXPECT_EQ(Traceparent(trace), "00-" + kTrace + "-0f1e2d3c4b5a6978-01");
}

TEST(TraceContext, CopiesOnlyTheKnownFlag) {
  EXPECT_FALSE(ParseTraceparent("00-" + kTrace + "-" + kSpan + "-fe")->sampled);
  EXPECT_EQ(Traceparent(JoinTrace("00-" + kTrace + "-" + kSpan + "-ff", kRandom)).substr(52), "-01");
}

TEST(TraceContext, ReadsTheKnownPartOfLaterVersions) {
  EXPECT_EQ(ParseTraceparent("01-" + kGood.substr(3))->trace_id, kTrace);
  EXPECT_EQ(ParseTraceparent("cc-" + kGood.substr(3) + "-what-comes")->trace_id, kTrace);
  EXPECT_FALSE(ParseTraceparent("01-" + kGood.substr(3) + "what-comes"));
}

TEST(TraceContext, InvalidHeaderStartsANewTrace) {
  std::vector<std::string> bad = {"",
                                  "-",
                                  "00",
                                  kGood + "-",
                                  kGood + " ",
                                  " " + kGood,
                                  kGood + "," + kGood,
                                  "ff-" + kGood.substr(3),
                                  "00-" + std::string(32, '0') + "-" + kSpan + "-01",
                                  "00-" + kTrace + "-" + std::string(16, '0') + "-01",
                                  "00_" + kTrace + "_" + kSpan + "_01",
                                  "00-" + kSpan + "-" + kTrace + "-01",
                                  std::string(1 << 20, '0'),
                                  "00-" + kTrace + "-" + kSpan + "-0\xff",
                                  "00-" + kTrace + "-" + kSpan + "-0" + std::string(1, '\0')};
  for (size_t i = 0; i < kGood.size(); ++i) {
    for (const char c : {'G', 'A', 'g', '\n', '\r', ' ', '\0', '"'}) {
      std::string changed = kGood;
      changed[i] = c;
      bad.push_back(changed);
    }
    bad.push_back(kGood.substr(0, i));
  }
  for (const std::string& header : bad) {
    EXPECT_FALSE(ParseTraceparent(header)) << header;
    const TraceContext trace = JoinTrace(header, kRandom);
    EXPECT_EQ(Traceparent(trace), "00-" + kRandom + "-0f1e2d3c4b5a6978-00") << header;
  }
}

}  // namespace
}  // namespace ringside
