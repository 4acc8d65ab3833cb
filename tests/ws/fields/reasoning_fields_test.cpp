// The request fields that control reasoning, as clients of several APIs send them.
#include "ws/fields/reasoning_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringside {
namespace {

using ::testing::ElementsAre;

struct ReasoningCase {
  const char *key, *value;
  ReasoningSpec spec = {};
  bool hidden = false;
  const char* summary = "";
};

const ReasoningCase kReasoningCases[] = {
    {"reasoning_effort", R"("low")", {.effort = "low"}},
    {"reasoning_effort", R"("none")", {.mode = ReasoningSpec::Mode::kOff}},
    {"reasoning", R"({"effort": "high", "summary": "auto"})", {.effort = "high"}, false, "auto"},
    {"reasoning", R"({"effort": null, "summary": null})"},
    {"reasoning", R"({"effort": "none"})", {.mode = ReasoningSpec::Mode::kOff}},
    {"reasoning",
     R"({"enabled": true, "max_tokens": 9, "exclude": true})",
     {ReasoningSpec::Mode::kOn, "", 9, ""},
     true},
    {"thinking", R"({"type": "enabled", "budget_tokens": 1024})", {ReasoningSpec::Mode::kOn, "", 1024, ""}},
    {"thinking", R"({"type": "adaptive", "display": "omitted"})", {}, true},
    {"thinking", R"({"type": "disabled"})", {.mode = ReasoningSpec::Mode::kOff}},
    {"thinking", "true", {.mode = ReasoningSpec::Mode::kOn}},
    {"think", "false", {.mode = ReasoningSpec::Mode::kOff}},
    {"think", R"("high")", {.effort = "high"}},
    {"enable_thinking", "false", {.mode = ReasoningSpec::Mode::kOff}},
    {"thinking_budget", "0", {.budget_tokens = 0}},
    {"thinking_budget_tokens", "7", {.budget_tokens = 7}},
    {"reasoning_budget", "-1"},
    {"chat_template_kwargs", R"({"enable_thinking":false})", {.template_kwargs = R"({"enable_thinking":false})"}},
    {"chat_template_kwargs", "{}"},
    {"include_reasoning", "false", {}, true},
    {"reasoning_format", R"("auto")"},
};

Status ReadField(const char* key, const char* value, IgnoredFields* ignored, ReasoningRequest* out) {
  static const SessionTableOptions options;
  const FieldTable<ReasoningRequest> table(ReasoningFields());
  return table.Read(ParseJson(std::string("{\"") + key + "\": " + value + "}").value(), {options, ignored}, out);
}

TEST(ReasoningFieldsTest, EveryFieldSetsItsOption) {
  for (const ReasoningCase& field : kReasoningCases) {
    IgnoredFields ignored(/*strict=*/true);
    ReasoningRequest read;
    const Status status = ReadField(field.key, field.value, &ignored, &read);
    EXPECT_TRUE(status.ok()) << field.key << " " << field.value << ": " << status.message();
    EXPECT_EQ(read.spec, field.spec) << field.key << " " << field.value;
    EXPECT_EQ(read.hidden, field.hidden) << field.key << " " << field.value;
    EXPECT_EQ(read.summary, field.summary) << field.key << " " << field.value;
  }
}

TEST(ReasoningFieldsTest, ReportsUnknownValues) {
  const struct {
    const char *key, *value, *name;
  } kCases[] = {
      {"reasoning_effort", R"("huge")", "reasoning_effort"},
      {"reasoning_effort", "5", "reasoning_effort"},
      {"reasoning", R"({"mood": 1})", "reasoning.mood"},
      {"reasoning", R"({"summary": "long"})", "reasoning.summary"},
      {"reasoning", "3", "reasoning"},
      {"thinking", R"({"type": "deep"})", "thinking.type"},
      {"thinking", R"({"budget_tokens": "many"})", "thinking.budget_tokens"},
      {"thinking", R"({"type": "enabled", "colour": 1})", "thinking.colour"},
      {"think", "[]", "think"},
      {"enable_thinking", R"("yes")", "enable_thinking"},
      {"thinking_budget", "1.5", "thinking_budget"},
      {"chat_template_kwargs", "[1]", "chat_template_kwargs"},
      {"include_reasoning", "1", "include_reasoning"},
      {"reasoning_format", R"("none")", "reasoning_format"},
  };
  for (const auto& [key, value, name] : kCases) {
    IgnoredFields ignored, strict(/*strict=*/true);
    ReasoningRequest read;
    EXPECT_TRUE(ReadField(key, value, &ignored, &read).ok()) << key << value;
    EXPECT_THAT(ignored.names(), ElementsAre(name));
    EXPECT_EQ(ReadField(key, value, &strict, &read).param(), name) << key << value;
  }
}

TEST(ReasoningFieldsTest, ReportsFieldsTheTemplateIgnores) {
  SessionTableOptions options;
  options.ignored_reasoning = [](const ReasoningSpec& spec) -> Result<std::vector<std::string>> {
    if (spec.template_kwargs.size() > 20) return InvalidArgument("too large", "template_kwargs");
    return std::vector<std::string>{"mode", "effort", "budget_tokens", "template_kwargs.mood"};
  };
  IgnoredFields ignored, strict(/*strict=*/true);
  ReasoningRequest request;
  TurnSpec turn;
  EXPECT_TRUE(SetReasoning(request, options, &strict, &turn).ok()) << "it says nothing";
  const auto read = [&](const char* key, const char* value) { return ReadField(key, value, &ignored, &request); };
  EXPECT_TRUE(read("thinking", R"({"type": "enabled", "budget_tokens": 9})").ok());
  EXPECT_TRUE(read("chat_template_kwargs", R"({"mood":1})").ok());
  EXPECT_TRUE(SetReasoning(request, options, &ignored, &turn).ok());
  // No field requested an effort.
  EXPECT_THAT(ignored.names(), ElementsAre("thinking", "thinking.budget_tokens", "chat_template_kwargs.mood"));
  EXPECT_EQ(turn.reasoning, request.spec);
  EXPECT_EQ(SetReasoning(request, options, &strict, &turn).reason(), "unsupported_value");
  EXPECT_TRUE(read("chat_template_kwargs", R"({"mood":"very very good"})").ok());
  EXPECT_EQ(SetReasoning(request, options, &ignored, &turn).param(), "chat_template_kwargs");
}

TEST(ReasoningFieldsTest, BeamSearchHasNoBudget) {
  SessionTableOptions options;
  options.ignored_reasoning = [](const ReasoningSpec&) { return std::vector<std::string>(); };
  IgnoredFields ignored;
  ReasoningRequest request;
  TurnSpec turn;
  turn.sampling.beams.width = 2;
  EXPECT_TRUE(ReadField("thinking_budget", "5", &ignored, &request).ok());
  EXPECT_TRUE(SetReasoning(request, options, &ignored, &turn).ok());
  EXPECT_THAT(ignored.names(), ElementsAre("thinking_budget"));
}

}  // namespace
}  // namespace ringside
