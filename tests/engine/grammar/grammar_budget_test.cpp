// Formats whose cost is out of proportion to their length: each is refused by name, deterministically, before the work
// is done and the memory taken; large formats of real clients are accepted.
#include "engine/grammar/grammar_budget.h"

#include <fmt/format.h>

#include <atomic>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/limits.h"
#include "base/worker_pool.h"
#include "tests/base/gate.h"
#include "tests/engine/grammar/grammar_harness.h"
#include "tests/engine/grammar/hostile_tools.h"

namespace ringside {
namespace {

using Kind = AnswerFormat::Kind;

struct Verdict {
  Status status;
  int64_t steps = 0, bytes = 0;  // spent, and held at the end
};

Verdict Judge(const AnswerFormat& format, const GrammarBudget::Limits& most = {}) {
  static const auto vocabulary = std::make_shared<const GrammarVocabulary>(TestTokenizer());
  GrammarBudget budget(most);
  Verdict verdict;
  const Result<GrammarSource> source = SourceOf(format, budget);
  verdict.status = source.ok() ? Grammar::Make(*source, vocabulary).status() : source.status();
  verdict.steps = budget.steps_spent();
  verdict.bytes = budget.bytes_held();
  return verdict;
}
Verdict Judge(Kind kind, const std::string& text, const GrammarBudget::Limits& most = {}) {
  return Judge({.kind = kind, .text = text, .param = "format"}, most);
}

/// A schema of an object with one property per given schema.
std::string Properties(size_t count, auto schema) {
  return ObjectOf(Repeated(count, ",", [&](size_t i) { return fmt::format("\"p{}\":{}", i, schema(i)); }));
}

constexpr int64_t kOneAllocation = 1 << 20;  // overshoot of one refused allocation

struct Hostile {
  const char* name;
  Kind kind;
  std::string text;
  const char* param;  // its prefix
};

std::vector<Hostile> HostileFormats() {
  const std::string empties = "(" + std::string(8000, '|') + "){65536}";
  const auto pattern = [](const std::string& text) { return R"({"type":"string","pattern":")" + text + "\"}"; };
  std::string doubling = R"({"oneOf":[{"$ref":"#/$defs/a0"},{"$ref":"#/$defs/b0"}],"$defs":{)";
  for (const char* side : {"a", "b"}) {
    for (int i = 0; i < 40; ++i) {
      const std::string next = fmt::format(R"({{"$ref":"#/$defs/{}{}"}})", side, i + 1);
      doubling += fmt::format("\"{}{}\":{},", side, i,
                              ObjectOf("\"x\":" + next + ",\"y\":" + next, R"(,"required":["x","y"])"));
    }
  }
  const std::string untagged = Repeated(2000, ",", [](size_t i) {
    return ObjectOf(fmt::format(R"("a{}":{{"const":{}}},"b":{{"const":{}}})", i % 2, i % 1999, i % 1998),
                    fmt::format(R"(,"required":["a{}","b"])", i % 2));
  });
  return {
      {"empty alternatives", Kind::kRegex, empties, "format"},
      {"empty alternatives of rules", Kind::kGbnf, "root ::= " + empties + " \"a\"", "format"},
      {"empty alternatives of a pattern", Kind::kJsonSchema, pattern(empties), "format.pattern"},
      {"empty alternatives of a property", Kind::kJsonSchema, Properties(2, [&](size_t) { return pattern(empties); }),
       "format.properties.p0.pattern"},
      {"repeated optional repetitions", Kind::kRegex, "((a?){1000}){1000}", "format"},
      {"repetitions of repetitions", Kind::kRegex, "((((a{1000}){1000}){1000}){1000})", "format"},
      {"repetitions of nothing", Kind::kRegex, "((((){60000}){60000}){60000}){60000}", "format"},
      {"repeated classes", Kind::kRegex, "(\\S\\W\\S\\W){60000}", "format"},
      {"automata of patterns", Kind::kJsonSchema,
       Properties(1500,
                  [](size_t i) {
                    return fmt::format(R"({{"type":"string","pattern":"^(.?){{100}}x{}$","maxLength":99}})", i);
                  }),
       "format.properties.p"},
      {"an exponential automaton", Kind::kJsonSchema,
       R"({"type":"string","pattern":"^[ab]*a[ab]{40}$","maxLength":900})", "format.pattern"},
      {"bounds of numbers", Kind::kJsonSchema,
       Properties(2500,
                  [](size_t i) {
                    return fmt::format(R"({{"type":"number","minimum":0.00000{},"maximum":123456789.123456}})", i + 1);
                  }),
       "format.properties.p"},
      {"long strings", Kind::kJsonSchema, R"({"type":"string","maxLength":65536})", "format.maxLength"},
      {"many of long strings", Kind::kJsonSchema,
       R"({"type":"array","minItems":60000,"items":{"type":"string","minLength":60000}})", "format"},
      {"objects without a tag", Kind::kJsonSchema, "{\"oneOf\":[" + untagged + "]}", "format.oneOf"},
  };
}

TEST(GrammarBudget, RefusesHostileFormatsByName) {
  for (const Hostile& one : HostileFormats()) {
    ASSERT_LE(one.text.size(), static_cast<size_t>(limits::kMaxGrammarTextBytes)) << one.name;
    const Verdict verdict = Judge(one.kind, one.text);
    EXPECT_EQ(verdict.status.code(), StatusCode::kInvalidArgument) << one.name << ": " << verdict.status.ToString();
    const std::string param = verdict.status.param().empty() ? "format" : verdict.status.param();
    EXPECT_TRUE(param.starts_with(one.param)) << one.name << ": " << param << ": " << verdict.status.message();
    EXPECT_LE(verdict.steps, limits::kMaxGrammarSteps + limits::kMaxGrammarTextBytes) << one.name;
    EXPECT_LE(verdict.bytes, limits::kMaxGrammarBuildBytes + kOneAllocation) << one.name;
    const GrammarBudget::Limits less{.steps = 1 << 20};
    const Verdict first = Judge(one.kind, one.text, less), again = Judge(one.kind, one.text, less);
    EXPECT_EQ(again.status.message(), first.status.message()) << one.name;
    EXPECT_EQ(again.steps, first.steps) << one.name;
  }
}

// A oneOf evaluated about 200 times, both of whose sides list the same values 36 times each.
TEST(GrammarBudget, ListedValuesAreComparedAsSets) {
  const auto schema = [](size_t values) {
    const auto list = [&](char c) {
      return "{\"enum\":[" + Repeated(values, ",", [&](size_t i) { return fmt::format("\"{}{}\"", c, i); }) + "]}";
    };
    const auto any = [](char c) {
      return "{\"anyOf\":[" + Repeated(36, ",", [&](size_t) { return fmt::format(R"({{"$ref":"#/$defs/{}"}})", c); }) +
             "]}";
    };
    const std::string properties = Repeated(200, ",", [](size_t i) {
      return fmt::format(R"("p{}":{{"oneOf":[{{"$ref":"#/$defs/A"}},{{"$ref":"#/$defs/B"}}]}})", i);
    });
    return ObjectOf(properties, fmt::format(R"(,"$defs":{{"A":{},"B":{},"e":{},"f":{}}})", any('e'), any('f'),
                                            list('e'), list('f')));
  };
  const Verdict some = Judge(Kind::kJsonSchema, schema(500)), more = Judge(Kind::kJsonSchema, schema(1000));
  ASSERT_TRUE(some.status.ok()) << some.status.ToString();
  ASSERT_TRUE(more.status.ok()) << more.status.ToString();
  EXPECT_LE(more.steps, 5 * some.steps / 2);
}

TEST(GrammarBudget, ManyTaggedObjectsCostLinearly) {
  const auto schema = [](size_t count) {
    return "{\"oneOf\":[" +
           Repeated(count, ",",
                    [](size_t i) {
                      return ObjectOf(fmt::format(R"("v":{{"type":"string"}},"k":{{"const":{}}})", i),
                                      R"(,"required":["v","k"])");
                    }) +
           "]}";
  };
  const Verdict some = Judge(Kind::kJsonSchema, schema(300)), more = Judge(Kind::kJsonSchema, schema(600));
  ASSERT_TRUE(more.status.ok()) << more.status.ToString();
  EXPECT_LE(more.steps, 5 * some.steps / 2);
}

TEST(GrammarBudget, FollowsRealSchemas) {
  const std::string values = Repeated(5000, ",", [](size_t i) { return fmt::format("\"value-{}\"", i * 7919); });
  const std::string wide = Properties(500, [](size_t i) -> std::string {
    switch (i % 8) {
      case 0:
        return fmt::format(R"({{"type":"string","maxLength":255,"pattern":"^[a-zA-Z0-9_{}-]+$"}})",
                           static_cast<char>('a' + i % 26));
      case 1:
        return fmt::format(R"({{"type":"integer","minimum":0,"maximum":{}}})", 10 * i);
      case 2:
        return R"({"type":"string","format":"date-time"})";
      case 3:
        return fmt::format(R"({{"type":"array","items":{{"enum":["a{0}","b{0}"]}},"maxItems":10}})", i);
      case 4:
        return R"({"type":"number","minimum":0})";
      case 5:
        return R"({"anyOf":[{"type":"string","format":"uuid"},{"type":"null"}]})";
      default:
        return R"({"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string"}}})";
    }
  });
  std::string jobs = R"({"type":"object","properties":{"jobs":{"$ref":"#/definitions/d0"}},"definitions":{)";
  for (int i = 0; i < 200; ++i) {
    jobs += fmt::format(
        R"({0}"d{1}":{{"type":"object","properties":{{"name":{{"type":"string"}},"needs":{{"$ref":"#/definitions/d{2}"}},
        "with":{{"type":"object","additionalProperties":{{"anyOf":[{{"type":"string"}},{{"$ref":"#/definitions/d{3}"}}]}}}}}}}})",
        i == 0 ? "" : ",", i, (i + 1) % 200, (i * 7) % 200);
  }
  for (const std::string& schema : {"{\"enum\":[" + values + "]}", wide, jobs + "}}"}) {
    const Verdict verdict = Judge(Kind::kJsonSchema, schema);
    EXPECT_TRUE(verdict.status.ok()) << verdict.status.ToString();
    EXPECT_LE(verdict.steps, limits::kMaxGrammarSteps / 2);
  }
}

// Each tool alone is accepted; all tools of a request share one budget.
TEST(GrammarBudget, ToolsShareOneBudget) {
  const auto judge = [](size_t count) {
    AnswerFormat format;
    format.calls = std::make_shared<const ToolCallRules>(ToolCallRules{
        .tools = Repeated(count, "\n",
                          [](size_t i) {
                            return ToolOf(i,
                                          ObjectOf(fmt::format(R"("a":{{"type":"string","pattern":"^(.?){{60}}x{}$",)"
                                                               R"("maxLength":50}})",
                                                               i)));
                          }),
        .strict = std::vector<bool>(count, true)});
    return Judge(format);
  };
  EXPECT_TRUE(judge(1).status.ok());
  const Verdict all = judge(128);
  EXPECT_EQ(all.status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(all.status.param().starts_with("tools[")) << all.status.param();
  EXPECT_LE(all.steps, limits::kMaxGrammarSteps + limits::kMaxGrammarTextBytes);
}

TEST(GrammarBudget, VerdictDependsOnStepsNotTime) {
  const AnswerFormat format{.kind = Kind::kRegex, .text = "[a-z]{1,1000}", .param = "format"};
  const Verdict free = Judge(format);
  ASSERT_TRUE(free.status.ok());
  EXPECT_TRUE(Judge(format, {.steps = free.steps}).status.ok());
  EXPECT_FALSE(Judge(format, {.steps = free.steps - 1}).status.ok());
  EXPECT_FALSE(Judge(format, {.bytes = 4096}).status.ok());
}

TEST(GrammarBudget, ErrorNamesTheRule) {
  const std::string text = "root ::= \"a\" large\nlarge ::= ((\"b\"{1000}){1000}){1000}";
  EXPECT_NE(Judge(Kind::kGbnf, text).status.message().find("rule 'large': "), std::string::npos);
  EXPECT_TRUE(Judge(Kind::kRegex, "((b{1000}){1000}){1000}").status.message().starts_with("The grammar is too large"));
}

// Owners whose grammars are being compiled leave workers to others, and equal requests share one compilation.
TEST(GrammarBudget, CompilingBlocksNoOtherCall) {
  GrammarCache cache(TestTokenizer());
  WorkerPool pool({.threads = 2});
  Gate gate;
  std::atomic<int> compiled{0};
  for (int i = 0; i < 8; ++i) {
    const auto get = [&, i, wait = gate.Call()] {
      const AnswerFormat format{.kind = Kind::kRegex, .text = "[a-z]{1,1000}", .param = "format"};
      const auto grammar = cache.Get(format, std::to_string(i), [&] {
        wait();
        return false;
      });
      compiled += grammar.ok() ? 1 : 0;
    };
    ASSERT_TRUE(pool.Submit(std::to_string(i), 0, get).ok());
  }
  while (pool.stats().long_calls < 8) std::this_thread::yield();
  std::promise<void> done;
  ASSERT_TRUE(pool.Submit("other", 0, [&] { done.set_value(); }).ok());
  done.get_future().wait();
  gate.Open();
  while (pool.stats().long_calls > 0) std::this_thread::yield();
  pool.Stop();
  EXPECT_EQ(compiled, 8);
  EXPECT_EQ(cache.size(), 1U);
}

TEST(GrammarBudget, StopsWhenTheClientDisconnects) {
  int asked = 0;
  GrammarCache cache(TestTokenizer());
  const auto gone = [&] { return ++asked == 3; };
  const auto grammar =
      cache.Get({.kind = Kind::kRegex, .text = "((a?){1000}){1000}", .param = "format"}, "owner", gone);
  EXPECT_EQ(grammar.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace ringside
