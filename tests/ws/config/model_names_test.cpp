// Model names that clients may request, and --strict-requests, as settings.
#include <gtest/gtest.h>

#include "ws/config/config.h"

namespace ringside {
namespace {

Result<ParsedConfig> ParseNames(std::vector<std::string> args) {
  args.insert(args.begin(), {"-m", "m"});
  return ParseConfig(args, {});
}

TEST(ConfigNames, AliasesAreNamesOrPrefixes) {
  const auto parsed = ParseNames({"--model-alias", "gpt-4o", "--model-alias", "claude-*", "--strict-requests"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->config.model_aliases, (std::vector<std::string>{"gpt-4o", "claude-*"}));
  EXPECT_TRUE(parsed->config.strict_requests);
  for (const char* bad : {"", "a b", "*-mini", "a*b", "caf\xC3\xA9"}) {
    EXPECT_FALSE(ParseNames({"--model-alias", bad}).ok()) << bad;
  }
}

TEST(ConfigNames, StarMatchesAnyName) {
  const auto parsed = ParseNames({"--served-model-name", "*"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->config.served_model_name, "");
  EXPECT_EQ(parsed->config.model_aliases, std::vector<std::string>{"*"});
  EXPECT_FALSE(parsed->config.strict_requests);
  EXPECT_EQ(ParseNames({"--served-model-name", "tiny"})->config.served_model_name, "tiny");
}

}  // namespace
}  // namespace ringside
