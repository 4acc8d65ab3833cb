// Settings of a server with several models, and those that exclude them.
#include <gtest/gtest.h>

#include "ws/config/config.h"

namespace ringside {
namespace {

Result<ParsedConfig> ParseFolder(std::vector<std::string> more) {
  more.insert(more.begin(), {"--models-dir", "models"});
  return ParseConfig(more, {});
}

TEST(ModelsDirConfigTest, ReplacesTheModel) {
  const auto parsed = ParseFolder({"--models-max", "3", "--models-memory-mb", "4096"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->config.models_dir, "models");
  EXPECT_EQ(parsed->config.models_max, 3);
  EXPECT_EQ(parsed->config.models_memory_mb, 4096);
  EXPECT_EQ(ParseFolder({})->config.models_max, 1);
  EXPECT_FALSE(ParseConfig({}, {}).ok());
}

TEST(ModelsDirConfigTest, ExcludesSettingsOfOneModel) {
  const std::vector<std::string> excluded[] = {{"--model", "a.gguf"},     {"--served-model-name", "a"},
                                               {"--lora", "law=adapter"}, {"--data-parallel-size", "2"},
                                               {"--models-max", "0"},     {"--models-memory-mb", "0"}};
  for (const auto& flags : excluded) {
    const auto parsed = ParseFolder(flags);
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument) << flags[0];
    EXPECT_NE(parsed.status().message().find(flags[0]), std::string::npos) << parsed.status().message();
  }
  EXPECT_TRUE(ParseFolder({"--model-alias", "gpt-4o"}).ok());
}

}  // namespace
}  // namespace ringside
