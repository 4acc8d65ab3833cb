// The exposition format of counters, gauges and histograms.
#include "ws/metric_registry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

namespace ringside {
namespace {

TEST(MetricRegistryTest, WritesFamiliesByTypeAndName) {
  MetricRegistry registry;
  registry.AddGauges("level", "A gauge").Add({}).Set(-0.25);
  auto& turns = registry.AddCounters("turns_total", "Turns, by \\ reason\nand model");
  turns.Add({{"reason", "a \"b\"\\c\nd"}, {"model", "m"}}).Increment();
  turns.Add({}).Increment(2.5);
  registry.AddCounters("unused_total", "No metric");
  EXPECT_EQ(registry.Text(),
            "# HELP turns_total Turns, by \\\\ reason\\nand model\n"
            "# TYPE turns_total counter\n"
            "turns_total 2.5\n"
            "turns_total{model=\"m\",reason=\"a \\\"b\\\"\\\\c\\nd\"} 1\n"
            "# HELP level A gauge\n"
            "# TYPE level gauge\n"
            "level -0.25\n");
}

TEST(MetricRegistryTest, BucketsOfAHistogramAccumulate) {
  MetricRegistry registry;
  Histogram& seconds = registry.AddHistograms("seconds", "Time").Add({{"cause", "slot"}}, std::vector{0.001, 0.5, 1e6});
  for (const double value : {0.001, 0.25, 0.5, 0.75, 2e6}) seconds.Observe(value);
  EXPECT_EQ(registry.Text(),
            "# HELP seconds Time\n"
            "# TYPE seconds histogram\n"
            "seconds_bucket{cause=\"slot\",le=\"0.001\"} 1\n"
            "seconds_bucket{cause=\"slot\",le=\"0.5\"} 3\n"
            "seconds_bucket{cause=\"slot\",le=\"1000000\"} 4\n"
            "seconds_bucket{cause=\"slot\",le=\"+Inf\"} 5\n"
            "seconds_sum{cause=\"slot\"} 2000001.501\n"
            "seconds_count{cause=\"slot\"} 5\n");
}

TEST(MetricRegistryTest, ValuesThatAreNoNumbersHaveNames) {
  MetricRegistry registry;
  auto& family = registry.AddGauges("level", "");
  family.Add({{"of", "a"}}).Set(std::numeric_limits<double>::infinity());
  family.Add({{"of", "b"}}).Set(-std::numeric_limits<double>::infinity());
  family.Add({{"of", "c"}}).Set(std::nan(""));
  EXPECT_NE(registry.Text().find("level{of=\"a\"} +Inf\nlevel{of=\"b\"} -Inf\nlevel{of=\"c\"} NaN\n"),
            std::string::npos);
}

TEST(MetricRegistryTest, AnEqualNameOrLabelReturnsTheExistingMetric) {
  MetricRegistry registry;
  Counter& first = registry.AddCounters("turns_total", "Turns").Add({{"reason", "stop"}});
  EXPECT_EQ(&registry.AddCounters("turns_total", "Turns").Add({{"reason", "stop"}}), &first);
  EXPECT_NE(&registry.AddCounters("turns_total", "Turns").Add({{"reason", "length"}}), &first);
}

TEST(MetricRegistryTest, CountsFromSeveralThreads) {
  MetricRegistry registry;
  Counter& turns = registry.AddCounters("turns_total", "Turns").Add({});
  constexpr int kThreads = 4, kTimes = 10000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kTimes; ++n) turns.Increment();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns.Value(), kThreads * kTimes);
}

}  // namespace
}  // namespace ringside
