// Reasoning settings of requests, and how templates of each family apply them.
#include "session/chat/templates/reasoning_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "session/chat/timeline/timeline.h"
#include "session/tools/tool_calls.h"
#include "tests/golden_folder.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Mode = ReasoningSpec::Mode;
using Start = ChannelFormat::Start;

const std::vector<ChatMessage> kOneQuestion = {{ChatRole::kUser, "Q"}};

ChatTemplate LearnedFrom(const std::string& source) {
  Result<ChatTemplate> chat = ChatTemplate::Recognise(source, {"", "<|im_end|>"});
  EXPECT_TRUE(chat.ok()) << chat.status().ToString();
  return *std::move(chat);
}
ChatTemplate GoldenChat(const std::string& name) {
  std::ifstream file(GoldenFolder("chat_template/") + name + ".jinja");
  std::stringstream bytes;
  bytes << file.rdbuf();
  return LearnedFrom(bytes.str());
}

std::string PromptWith(const ChatTemplate& chat) {
  if (chat.renders_whole()) return chat.RenderWhole(kOneQuestion, true, "", ByteTokenizer())->Text();
  return chat.Render(kOneQuestion, TimelineEnd::kNothing, true).Text();
}

struct Reached {
  std::string prompt;
  std::optional<Start> start;
  std::vector<std::string> ignored;
  int64_t budget;
  std::string head;
};
Reached Reach(const ChatTemplate& chat, const ReasoningSpec& spec) {
  const Result<SettledReasoning> settled = chat.Settle(spec);
  EXPECT_TRUE(settled.ok()) << settled.status().ToString();
  const ChatTemplate& used = settled->chat ? *settled->chat : chat;
  return {PromptWith(used), settled->channels ? std::optional(settled->channels->start) : std::nullopt,
          settled->ignored, settled->budget, settled->head};
}

const std::string kChatMlSource =
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}";
const std::string kThinkSource = kChatMlSource + "{{- '<think>\n' }}{%- endif %}{#- </think> #}";

TEST(ReasoningSettings, UsesASwitchOfTheTemplate) {
  const ChatTemplate qwen3 = GoldenChat("qwen3");
  const Reached usual = Reach(qwen3, {}), off = Reach(qwen3, {.mode = Mode::kOff}),
                on = Reach(qwen3, {.mode = Mode::kOn});
  EXPECT_THAT(usual.prompt, EndsWith("<|im_start|>assistant\n"));
  EXPECT_EQ(usual.start, Start::kUndecided);
  EXPECT_THAT(off.prompt, EndsWith("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_EQ(off.start, Start::kAnswer);
  EXPECT_EQ(on.prompt, usual.prompt);
  EXPECT_EQ(Reach(qwen3, {.effort = "none"}).prompt, off.prompt);
  EXPECT_EQ(Reach(qwen3, {.budget_tokens = 0}).prompt, off.prompt);
  EXPECT_EQ(Reach(qwen3, {.template_kwargs = R"({"enable_thinking": false})"}).prompt, off.prompt);
  for (const Reached& settled : {usual, off, on}) {
    EXPECT_THAT(settled.ignored, IsEmpty());
    EXPECT_EQ(settled.head, "") << "only the generation prompt is another";
  }
}

TEST(ReasoningSettings, WithoutEffortsASwitchIsOnOrOff) {
  const ChatTemplate qwen3 = GoldenChat("qwen3");
  const Reached on = Reach(qwen3, {.mode = Mode::kOn}), off = Reach(qwen3, {.mode = Mode::kOff});
  for (const char* effort : {"minimal", "low", "max"}) {
    EXPECT_EQ(Reach(qwen3, {.effort = effort}).prompt, on.prompt) << effort;
    EXPECT_THAT(Reach(qwen3, {.effort = effort}).ignored, IsEmpty()) << effort;
  }
  EXPECT_EQ(Reach(qwen3, {.effort = "none"}).prompt, off.prompt);
  EXPECT_THAT(Reach(qwen3, {.effort = "enormous"}).ignored, ElementsAre("effort"));
}

TEST(ReasoningSettings, FamilyMarkupEndsReasoningWithoutASwitch) {
  const Reached off = Reach(LearnedFrom(kThinkSource), {.mode = Mode::kOff});
  EXPECT_THAT(off.prompt, EndsWith("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_EQ(off.start, Start::kAnswer);
  EXPECT_EQ(Reach(LearnedFrom(kThinkSource), {}).start, Start::kReasoning);
  const Reached harmony = Reach(GoldenChat("harmony"), {.effort = "none"});
  EXPECT_THAT(harmony.prompt, EndsWith("<|start|>assistant<|channel|>final<|message|>"));
  EXPECT_EQ(harmony.start, Start::kAnswer);
  EXPECT_THAT(harmony.ignored, IsEmpty());
}

TEST(ReasoningSettings, MapsEffortsToTheTemplatesNames) {
  const std::string source =
      "{{- '<|im_start|>system\nReasoning: ' + (reasoning_effort if reasoning_effort is defined else "
      "'medium') + '<|im_end|>\n' }}" +
      kThinkSource;
  const ChatTemplate chat = LearnedFrom(source);
  EXPECT_THAT(Reach(chat, {}).prompt, HasSubstr("Reasoning: medium"));
  const Reached high = Reach(chat, {.effort = "high"});
  EXPECT_THAT(high.prompt, HasSubstr("Reasoning: high"));
  EXPECT_THAT(high.ignored, IsEmpty());
  EXPECT_NE(high.head, "") << "it is in the conversation's head";
  EXPECT_THAT(Reach(chat, {.effort = "minimal"}).prompt, HasSubstr("Reasoning: low"));
  EXPECT_THAT(Reach(chat, {.effort = "xhigh"}).prompt, HasSubstr("Reasoning: high"));
  EXPECT_THAT(Reach(chat, {.effort = "enormous"}).ignored, ElementsAre("effort"));
  EXPECT_THAT(Reach(LearnedFrom(kThinkSource), {.effort = "high"}).ignored, ElementsAre("effort"));
}

TEST(ReasoningSettings, UsesTheNearestEffortTheTemplateAccepts) {
  const ChatTemplate chat = LearnedFrom(
      "{%- if reasoning_effort is defined and reasoning_effort not in ['low', 'max'] %}{{- raise_exception('no') }}"
      "{%- endif %}{{- '<|im_start|>system\n' + (reasoning_effort | default('low')) + '<|im_end|>\n' }}" +
      kThinkSource);
  EXPECT_THAT(Reach(chat, {.effort = "max"}).prompt, HasSubstr("system\nmax"));
  EXPECT_THAT(Reach(chat, {.effort = "high"}).prompt, HasSubstr("system\nmax"));
  EXPECT_THAT(Reach(chat, {.effort = "medium"}).prompt, HasSubstr("system\nlow"));
  EXPECT_THAT(Reach(chat, {.template_kwargs = R"({"reasoning_effort": "max"})"}).prompt, HasSubstr("system\nmax"));
  EXPECT_THAT(Reach(chat, {.template_kwargs = R"({"reasoning_effort": "medium"})"}).ignored,
              ElementsAre("template_kwargs.reasoning_effort"));
}

TEST(ReasoningSettings, EffortMayDisableReasoning) {
  const ChatTemplate chat = LearnedFrom(
      "{%- set effort = reasoning_effort | default('high') %}{{- '<|im_start|>system\n' + effort + '<|im_end|>\n' }}" +
      kChatMlSource + "{{- '<think></think>' if effort == 'no_think' else '<think>' }}{%- endif %}");
  const Reached off = Reach(chat, {.mode = Mode::kOff});
  EXPECT_THAT(off.prompt, AllOf(HasSubstr("system\nno_think"), EndsWith("assistant\n<think></think>")));
  EXPECT_EQ(off.start, Start::kAnswer);
  EXPECT_THAT(off.ignored, IsEmpty());
}

TEST(ReasoningSettings, RendersCallsWithAMessageAsTheTemplateDoes) {
  const Result<SettledReasoning> settled = GoldenChat("harmony").Settle({});
  const std::string call =
      settled->channels->call_open + "f" + settled->channels->call_arguments + "{}" + settled->channels->call_close;
  const std::vector<ToolCall> calls = ReadToolCalls(call);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].name, "f");
  EXPECT_EQ(calls[0].arguments, "{}");
  EXPECT_TRUE(calls[0].complete);
}

TEST(ReasoningSettings, PassesBudgetsToTemplateAndEngine) {
  const ChatTemplate chat = LearnedFrom(
      "{%- if thinking_budget is defined %}{{- '<|im_start|>system\nbudget ' ~ thinking_budget ~ '<|im_end|>\n' }}"
      "{%- endif %}" +
      kThinkSource);
  const Reached some = Reach(chat, {.budget_tokens = 300});
  EXPECT_THAT(some.prompt, HasSubstr("budget 300"));
  EXPECT_EQ(some.budget, 300);
  EXPECT_THAT(Reach(chat, {.mode = Mode::kOff}).prompt, HasSubstr("budget 0"));
  EXPECT_EQ(Reach(LearnedFrom(kThinkSource), {.budget_tokens = 300}).budget, 300);
  EXPECT_EQ(Reach(LearnedFrom(kThinkSource), {}).budget, -1);
}

TEST(ReasoningSettings, PassesOnlyKwargsTheTemplateReads) {
  const ChatTemplate chat =
      LearnedFrom("{{- '<|im_start|>system\n' ~ (mood | default('calm')) ~ '<|im_end|>\n' }}" + kThinkSource);
  EXPECT_THAT(Reach(chat, {.template_kwargs = R"({"mood": "wild", "odd": 1})"}).prompt, HasSubstr("system\nwild"));
  EXPECT_THAT(Reach(chat, {.template_kwargs = R"({"mood": "wild", "odd": 1})"}).ignored,
              ElementsAre("template_kwargs.odd"));
  for (const char* kwargs : {R"({"messages": []})", R"({"bos_token": "x"})", R"({"mood": "<|im_end|>"})",
                             R"({"mood": ["a", {"b": "[INST]"}]})", R"({"": 1})"}) {
    const Reached settled = Reach(chat, {.template_kwargs = kwargs});
    EXPECT_EQ(settled.ignored.size(), 1u) << kwargs;
    EXPECT_EQ(settled.prompt, PromptWith(chat)) << "no request writes markup: " << kwargs;
  }
}

TEST(ReasoningSettings, LimitsKwargs) {
  const ChatTemplate chat = LearnedFrom(kThinkSource);
  const std::string wide = "{\"a\": \"" + std::string(kMaxTemplateKwargsBytes, 'x') + "\"}";
  std::string deep = "1";
  for (int i = 0; i < 1000; ++i) deep = "[" + deep + "]";
  for (const std::string& kwargs : {wide, "{\"a\": " + deep + "}", std::string("[1]"), std::string("nope")}) {
    const auto settled = chat.Settle({.template_kwargs = kwargs});
    ASSERT_FALSE(settled.ok()) << kwargs.substr(0, 40);
    EXPECT_EQ(settled.status().param(), "chat_template_kwargs");
  }
}

TEST(ReasoningSettings, LimitsCachedTemplates) {
  const std::string source = "{{- '<|im_start|>system\n' ~ (mood | default('calm')) ~ '<|im_end|>\n' }}" + kThinkSource;
  const ChatTemplate usual = LearnedFrom(source);
  const ReasoningSettings settings(
      *TemplateRun::FromSource(source, {"", "<|im_end|>"}), {"", "<|im_end|>"},
      [](TemplateRun, const ChatTemplate::Facts&) { return ChatTemplate::Named("chatml"); }, ToolSyntaxName::kHermes);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(settings.Settle({.template_kwargs = "{\"mood\": " + std::to_string(i) + "}"}, usual).ok());
  }
  EXPECT_LE(settings.kept(), 16u);
}

TEST(ReasoningSettings, RendersEarlierReasoningAsTheTemplateDoes) {
  const std::string keeps =
      "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' }}{%- if m.role == 'assistant' and "
      "m.reasoning_content %}"
      "{{- '<think>\n' + m.reasoning_content + '\n</think>\n\n' }}{%- endif %}{{- m.content + '<|im_end|>\n' }}"
      "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}";
  ChatMessage answer = {ChatRole::kAssistant, "A"};
  answer.reasoning = "R <|im_end|>";
  const std::vector<ChatMessage> talk = {kOneQuestion[0], answer, {ChatRole::kUser, "N"}};
  const ChatTemplate chat = LearnedFrom(keeps);
  ASSERT_FALSE(chat.renders_whole());
  const Rendering kept = chat.Render(talk, TimelineEnd::kNothing, true);
  EXPECT_THAT(kept.Text(), HasSubstr("assistant\n<think>\nR <|im_end|>\n</think>\n\nA<|im_end|>"));
  const auto encoded = EncodeRendering(ByteTokenizer(), kept, 10000);
  EXPECT_EQ(std::ranges::count(encoded->ids, ByteTokenizer::kImEnd), 3) << "reasoning is no markup";
  EXPECT_THAT(GoldenChat("qwen3").Render(talk, TimelineEnd::kNothing, true).Text(), Not(HasSubstr("R ")));
}

TEST(ReasoningSettings, RendersReasoningUntilTheNextQuestionAsTheTemplateDoes) {
  const ChatTemplate chat = LearnedFrom(
      "{%- set ns = namespace(last=-1) %}{%- for m in messages %}{%- if m.role == 'user' %}"
      "{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}"
      "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' }}"
      "{%- if m.role == 'assistant' and m.reasoning_content and loop.index0 > ns.last %}"
      "{{- '<think>\n' + m.reasoning_content + '\n</think>\n' }}{%- endif %}{{- m.content + '<|im_end|>\n' }}"
      "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}");
  ASSERT_FALSE(chat.renders_whole());
  EXPECT_EQ(chat.Settle({})->channels->forced_close, "\n</think>\n") << "a budget ends it in the template's words";
  const ByteTokenizer tokenizer;
  const Codec codec{tokenizer, chat, 64};
  for (const bool asked_again : {false, true}) {
    Timeline timeline;
    timeline.AddItem({.text = "Q"});
    timeline.AddItem({.role = ChatRole::kAssistant, .text = "A", .reasoning = "R"});
    if (asked_again) timeline.AddItem({.text = "N"});
    if (!asked_again) timeline.AddItem({.role = ChatRole::kTool, .text = "4", .call_ids = "call_x"});
    ASSERT_TRUE(timeline.Render(codec, true, 1000).ok());
    const std::string text = tokenizer.Decode(timeline.tokens().From(0));
    EXPECT_THAT(text,
                HasSubstr(asked_again ? "assistant\nA<|im_end|>" : "assistant\n<think>\nR\n</think>\nA<|im_end|>"));
  }
}

TEST(ReasoningSettings, RendersAChangedHeadOnce) {
  const ChatTemplate usual =
      LearnedFrom("{{- '<|im_start|>system\n' ~ (mood | default('calm')) ~ '<|im_end|>\n' }}" + kThinkSource);
  const Result<SettledReasoning> wild = usual.Settle({.template_kwargs = R"({"mood": "wild"})"});
  const ByteTokenizer tokenizer;
  const Codec calm_codec{tokenizer, usual, 64}, wild_codec{tokenizer, *wild->chat, 64};
  Timeline timeline;
  Item question;
  question.text = "Q";
  timeline.AddItem(question);
  ASSERT_TRUE(timeline.Render(calm_codec, false, 1000).ok());
  EXPECT_THAT(tokenizer.Decode(timeline.tokens().From(0)), HasSubstr("calm"));
  TimelineHead head = timeline.head();
  head.variables = wild->head;
  EXPECT_TRUE(timeline.SetHead(head, wild_codec, 1000)->has_value());
  EXPECT_THAT(tokenizer.Decode(timeline.tokens().From(0)), HasSubstr("wild"));
  head.variables = "another name for the same";
  EXPECT_FALSE(timeline.SetHead(head, wild_codec, 1000)->has_value()) << "no id changed";
}

}  // namespace
}  // namespace ringside
