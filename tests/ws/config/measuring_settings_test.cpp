// Settings for benchmarks: the GPUs' all-reduce algorithm, and dummy weights.
#include <gtest/gtest.h>

#include "ws/config/config.h"

namespace ringside {
namespace {

Result<ParsedConfig> Parse(const std::string& name, const std::string& value) {
  return ParseConfig({"-m", "m", name, value}, {});
}

TEST(MeasuringSettingsTest, AreReadByName) {
  const auto standard = ParseConfig({"-m", "m"}, {});
  ASSERT_TRUE(standard.ok());
  EXPECT_EQ(standard->config.gpu.all_reduce, AllReduce::kAuto);
  EXPECT_EQ(standard->config.load_format, LoadFormat::kAuto);
  EXPECT_EQ(Parse("--all-reduce", "own")->config.gpu.all_reduce, AllReduce::kOwn);
  EXPECT_EQ(Parse("--all-reduce", "nccl")->config.gpu.all_reduce, AllReduce::kNccl);
  EXPECT_EQ(Parse("--load-format", "dummy")->config.load_format, LoadFormat::kDummy);
  EXPECT_EQ(Parse("--all-reduce", "mpi").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse("--load-format", "gguf").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringside
