// Patterns of module names: as Python's re.match where supported, and refused by name elsewhere.
#include "engine/files/module_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringside::module_pattern {
namespace {

using ::testing::HasSubstr;

bool Matches(const std::string& pattern, const std::string& name) {
  const auto parsed = ModulePattern::Parse(pattern);
  EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
  return parsed.ok() && parsed->Matches(name);
}

TEST(ModulePattern, NamesMatchThemselves) {
  EXPECT_TRUE(Matches("lm_head", "lm_head"));
  EXPECT_FALSE(Matches("lm_head", "lm_head.weight"));
  EXPECT_FALSE(Matches("lm.head", "lm_head"));
}

TEST(ModulePattern, ExpressionsMatchFromTheStart) {
  const struct {
    const char *pattern, *name;
    bool matches;
  } kCases[] = {{"re:.*lm_head", "model.lm_head", true},
                {"re:lm_head", "model.lm_head", false},
                {"re:model", "model.layers.0", true},
                {"re:model$", "model.layers.0", false},
                {"re:^model\\.layers\\.\\d+\\.mlp$", "model.layers.17.mlp", true},
                {"re:^model\\.layers\\.\\d+\\.mlp$", "model.layers.x.mlp", false},
                {"re:.*\\.(q|k|v)_proj$", "a.k_proj", true},
                {"re:.*\\.(?:q|k|v)_proj$", "a.o_proj", false},
                {"re:.*[qkv]_proj", "a.v_proj.b", true},
                {"re:.*layers\\.[0-3]\\.", "layers.4.mlp", false},
                {"re:a[^.]*\\.b", "axyz.b", true},
                {"re:a[^.]*\\.b", "ax.yz.b", false},
                {"re:a{2,3}b", "aab", true},
                {"re:a{2,3}b", "aaaab", false},
                {"re:a{2}$", "aaa", false},
                {"re:a{2,}$", "aaaaa", true},
                {"re:a+?b?c*$", "accc", true},
                {"re:(a*)*$", "aaab", false},
                {"re:(a|aa)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", false},
                {"re:", "anything", true},
                {"re:a||b", "b", true},
                {"re:[]x]+$", "]x", true},
                {"re:a-b\\-c", "a-b-c", true}};
  for (const auto& c : kCases) EXPECT_EQ(Matches(c.pattern, c.name), c.matches) << c.pattern << " " << c.name;
}

TEST(ModulePattern, RefusesOthersByName) {
  const std::pair<std::string, std::string> kCases[] = {
      {"re:(?!a)b", "has a special group"},
      {"re:(a", "has an open group"},
      {"re:a)", "closes no group"},
      {"re:[a", "has an open class"},
      {"re:*a", "repeats nothing"},
      {"re:a\\", "ends in a backslash"},
      {"re:\\bword", "has an unknown escape"},
      {"re:a{3,2}", "has an invalid number of repeats"},
      {"re:a{9999999999}", "invalid number"},
      {"re:[z-a]", "has an invalid range"},
      {"re:((a{64}){64}){64}", "is too long"},
      {"re:" + std::string(100, '(') + std::string(100, ')'), "too deeply"},
      {"re:" + std::string(5000, 'a'), "too long"}};
  for (const auto& [pattern, reason] : kCases) {
    const auto parsed = ModulePattern::Parse(pattern);
    ASSERT_FALSE(parsed.ok()) << pattern;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(parsed.status().message(), HasSubstr(reason)) << pattern;
    EXPECT_THAT(parsed.status().message(), HasSubstr("the pattern 're:"));
  }
}

}  // namespace
}  // namespace ringside::module_pattern
