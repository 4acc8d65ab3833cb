// The most expensive tools that a request may contain: their cost is bounded, and unsupported ones are refused by name.
#include "tests/engine/grammar/hostile_tools.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "engine/grammar/grammar_cache.h"
#include "tests/engine/grammar/byte_vocabulary.h"

namespace ringside {
namespace {

AnswerFormat Calling(const HostileTools& tools, bool strict) {
  AnswerFormat format;
  format.calls = std::make_shared<const ToolCallRules>(
      ToolCallRules{.tools = tools.lines, .strict = std::vector<bool>(tools.count, strict)});
  return format;
}

constexpr size_t kMostBytes = 32 << 20;  // limit per cached set

TEST(HostileTools, FitIntoARequest) {
  for (const HostileTools& tools : AllHostileTools()) {
    EXPECT_LE(tools.lines.size(), static_cast<size_t>(limits::kMaxGrammarTextBytes)) << tools.name;
    EXPECT_GE(tools.lines.size(), static_cast<size_t>(limits::kMaxGrammarTextBytes) / 4) << tools.name;
    EXPECT_LE(tools.count, static_cast<size_t>(limits::kMaxTools)) << tools.name;
  }
}

TEST(HostileTools, AreAcceptedOrRefusedByName) {
  const ByteVocabulary tokenizer;
  for (const HostileTools& tools : AllHostileTools()) {
    GrammarCache cache(tokenizer);
    const auto strict = cache.Get(Calling(tools, true));
    if (strict.ok()) {
      EXPECT_LE((*strict)->bytes(), kMostBytes) << tools.name;
      continue;
    }
    EXPECT_EQ(strict.status().code(), StatusCode::kInvalidArgument) << tools.name;
    EXPECT_TRUE(strict.status().param().starts_with("tools")) << tools.name << ": " << strict.status().param();
    EXPECT_LE(strict.status().message().size(), 4096u) << tools.name;
    // Without strict they are accepted, with any object as arguments.
    const auto lenient = cache.Get(Calling(tools, false));
    ASSERT_TRUE(lenient.ok()) << tools.name << ": " << lenient.status().ToString();
    EXPECT_LE((*lenient)->bytes(), kMostBytes) << tools.name;
  }
}

TEST(HostileTools, AcceptsALargeSetOfTools) {
  const ByteVocabulary tokenizer;
  GrammarCache cache(tokenizer);
  const HostileTools large{"large", LargeTools(), 128};
  const auto grammar = cache.Get(Calling(large, true));
  ASSERT_TRUE(grammar.ok()) << grammar.status().ToString();
  GrammarMatcher matcher(*grammar);
  EXPECT_TRUE(matcher
                  .Append(R"(<tool_call>
{"name": "tool127", "arguments": {"in": {"in": {"p20": "x"}}}}
</tool_call>)")
                  .ok());
  EXPECT_TRUE(matcher.may_end());
}

}  // namespace
}  // namespace ringside
