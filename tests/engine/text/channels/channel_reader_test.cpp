// Parsing of answers of every family: golden texts, whole and split at every point.
#include "engine/text/channels/channel_reader.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/text/channels/channel_families.h"

namespace ringside {
namespace {

// Bytes, or a special token's name.
struct SampledUnit {
  std::string text;
  bool special = false;
};

// `[[NAME]]` is a special token, which has no text.
std::vector<SampledUnit> SampledUnitsOf(std::string_view text) {
  std::vector<SampledUnit> units;
  while (!text.empty()) {
    const size_t open = text.find("[["), close = open == text.npos ? text.npos : text.find("]]", open);
    if (close == text.npos) {
      units.push_back({std::string(text)});
      break;
    }
    if (open > 0) units.push_back({std::string(text.substr(0, open))});
    units.push_back({std::string(text.substr(open + 2, close - open - 2)), true});
    text.remove_prefix(close + 2);
  }
  return units;
}

struct ToldParts {
  std::string reasoning, text;
  bool in_answer = false;
  bool operator==(const ToldParts&) const = default;
};
std::ostream& operator<<(std::ostream& out, const ToldParts& told) {
  return out << '{' << told.reasoning << '|' << told.text << '|' << told.in_answer << '}';
}

// Pushes the text in two pieces, split after `cut` bytes, or, with `bytes`, byte by byte.
ToldParts ReadParts(const ChannelFormat& format, std::string_view text, size_t cut, bool bytes = false) {
  ChannelReader reader(std::make_shared<const ChannelFormat>(format));
  ToldParts told;
  const auto add = [&](const ChannelParts& parts) {
    told.reasoning += parts.reasoning;
    told.text += parts.text;
  };
  size_t at = 0;
  for (const SampledUnit& unit : SampledUnitsOf(text)) {
    if (unit.special) {
      add(reader.PushSpecial(unit.text));
      continue;
    }
    const std::string_view all = unit.text;
    if (bytes) {
      for (size_t i = 0; i < all.size(); ++i) add(reader.Push(all.substr(i, 1)));
    } else {
      const size_t first = cut > at ? std::min(cut - at, all.size()) : 0;
      add(reader.Push(all.substr(0, first)));
      add(reader.Push(all.substr(first)));
    }
    at += all.size();
  }
  told.in_answer = reader.in_answer();
  add(reader.Finish());
  return told;
}

struct GoldenAnswer {
  const char *family, *prompt, *sampled;
  ToldParts told;
};

const GoldenAnswer kGoldenAnswers[] = {
    {"think", "<think>\n", "Hm.\nWell\n</think>\n\nParis.", {"Hm.\nWell", "Paris.", true}},
    {"think", "assistant\n", "<think>\nHm\n</think>\n\nParis", {"Hm", "Paris", true}},
    {"think", "assistant\n", "\n<think>Hm</think>Paris", {"Hm", "Paris", true}},
    {"think", "<think>", "<think>\nHm</think> Paris", {"Hm", "Paris", true}},
    {"think", "assistant\n", "[[<think>]]\nHm\n[[</think>]]\n\nParis", {"Hm", "Paris", true}},
    {"think", "<think>\n\n</think>\n\n", "Say <think> and </think>.", {"", "Say <think> and </think>.", true}},
    {"think", "assistant\n", "  Paris <think>no</think>", {"", "  Paris <think>no</think>", true}},
    {"think",
     "<think>\n",
     "a </thin b </think c\n</think>\n\n    code\nmore",
     {"a </thin b </think c", "    code\nmore", true}},
    {"think", "<think>\n", "\n</think>\n\nNo thought", {"", "No thought", true}},
    {"think", "<think>\n", "cut in the midd", {"cut in the midd", "", false}},
    {"think", "<think>\n", "held </thi", {"held </thi", "", false}},
    {"think", "assistant\n", "", {"", "", false}},
    {"think", "assistant\n", "<thi", {"", "<thi", false}},
    {"granite", "assistant", "<think>Hm</think>\n<response>Paris</response>", {"Hm", "Paris", true}},
    {"granite", "assistant", "Just Paris", {"", "Just Paris", true}},
    {"hunyuan", "assistant", "<think>\nHm\n</think>\n<answer>\nParis\n</answer>", {"Hm", "Paris\n", true}},
    {"solar_open",
     "<|begin|>assistant",
     "[[<|think|>]]Hm[[<|end|>]][[<|begin|>]]assistant[[<|content|>]]Paris",
     {"Hm", "Paris", true}},
    {"solar_open", "<|begin|>assistant", "[[<|content|>]]Paris", {"", "Paris", true}},
    {"solar_open", "<|begin|>assistant<|think|><|end|><|begin|>assistant", "[[<|content|>]]Paris", {"", "Paris", true}},
    {"kimi_k3",
     "<|open|>think<|sep|>",
     "Hm[[<|close|>]]think[[<|sep|>]][[<|open|>]]response[[<|sep|>]]Paris[[<|close|>]]response[[<|sep|>]][[<|close|>]]"
     "message[[<|sep|>]]",
     {"Hm", "Paris", true}},
    {"kimi_k3", "<|open|>response<|sep|>", "Paris[[<|close|>]]response[[<|sep|>]]", {"", "Paris", true}},
    {"kimi", "assistant", "\u25c1think\u25b7Hm\u25c1/think\u25b7Paris", {"Hm", "Paris", true}},
    {"apriel",
     "<|assistant|>\nHere are my reasoning steps:\n",
     "Hm\n[BEGIN FINAL RESPONSE]\nParis\n[END FINAL RESPONSE]",
     {"Hm", "Paris\n", true}},
    {"apriel_tags", "<|assistant|>\n", "<thinking>\nHm\n</thinking>\nParis", {"Hm", "Paris", true}},
    {"hy_open", "<think:opensource>", "Hm[[</think:opensource>]]Paris", {"Hm", "Paris", true}},
    {"hy", "<think>", "Hm[[</think>]]Paris", {"Hm", "Paris", true}},
    {"seed",
     "assistant\n",
     "<seed:think>a<seed:cot_budget_reflect>b</seed:cot_budget_reflect></seed:think>c",
     {"a<seed:cot_budget_reflect>b</seed:cot_budget_reflect>", "c", true}},
    {"mistral", "[/INST]", "[[[THINK]]]Hm[[[/THINK]]]Paris", {"Hm", "Paris", true}},
    {"gemma4", "model\n", "[[<|channel>]]thought\nHm\n[[<channel|>]]Paris", {"Hm", "Paris", true}},
    {"gemma4", "model\n<|channel>thought\n<channel|>", "Paris", {"", "Paris", true}},
    {"command",
     "",
     "[[<|START_THINKING|>]]Hm[[<|END_THINKING|>]][[<|START_RESPONSE|>]]Paris[[<|END_RESPONSE|>]]",
     {"Hm", "Paris", true}},
    {"minimax_m3", "assistant\n<mm:think>", "Hm</mm:think>Paris", {"Hm", "Paris", true}},
    {"harmony",
     "<|start|>assistant",
     "[[<|channel|>]]analysis[[<|message|>]]Hm [[<|end|>]][[<|start|>]]assistant[[<|channel|>]]final[[<|message|>]] "
     "Paris",
     {"Hm ", " Paris", true}},
    {"harmony",
     "<|start|>assistant",
     "[[<|channel|>]]analysis[[<|message|>]]a[[<|end|>]][[<|start|>]]assistant[[<|channel|>]]analysis[[<|message|>]]b",
     {"a\n\nb", "", false}},
    {"harmony",
     "<|start|>assistant",
     "[[<|channel|>]]analysis[[<|message|>]]a[[<|end|>]][[<|start|>]]assistant[[<|channel|>]]commentary to=functions.f "
     "[[<|constrain|>]]json[[<|message|>]]{\"x\":1}[[<|call|>]]",
     {"a", "<call f>{\"x\":1}</call>", false}},
    {"harmony",
     "<|start|>assistant",
     "[[<|channel|>]]commentary[[<|message|>]]Look:[[<|end|>]][[<|start|>]]assistant to=functions.g[[<|channel|>]]"
     "commentary[[<|message|>]]{}",
     {"", "Look:+<call g>{}", true}},
    {"harmony", "<|start|>assistant<|channel|>final<|message|>", "Paris", {"", "Paris", true}},
};

ChannelFormat FormatOf(const GoldenAnswer& golden) {
  ChannelFormat format = FormatAfter(*FamilyByName(golden.family), golden.prompt);
  format.call_open = "<call ";
  format.call_next = "+<call ";
  format.call_arguments = ">";
  format.call_close = "</call>";
  return format;
}

TEST(ChannelReader, EverySplitGivesTheSameParts) {
  for (const GoldenAnswer& golden : kGoldenAnswers) {
    SCOPED_TRACE(std::string(golden.family) + ": " + golden.sampled);
    const ChannelFormat format = FormatOf(golden);
    const std::string sampled = golden.sampled;
    for (size_t cut = 0; cut <= sampled.size(); ++cut) ASSERT_EQ(ReadParts(format, sampled, cut), golden.told) << cut;
    ASSERT_EQ(ReadParts(format, sampled, 0, /*bytes=*/true), golden.told);
  }
}

TEST(ChannelReader, EmitsTextOnceItCannotBeAMarker) {
  ChannelReader reader(std::make_shared<const ChannelFormat>(FormatAfter(*FamilyByName("think"), "<think>\n")));
  EXPECT_EQ(reader.Push("Let me see").reasoning, "Let me see");
  EXPECT_TRUE(reader.in_reasoning());
  EXPECT_EQ(reader.Push("\n</th").reasoning, "");
  EXPECT_EQ(reader.Push("e").reasoning, "\n</the");
  EXPECT_EQ(reader.Push("</think>").reasoning, "");
  EXPECT_TRUE(reader.in_answer());
  EXPECT_EQ(reader.Push("\n\nYes ").text, "Yes ");
}

TEST(ChannelReader, AnswerFormatPreservesWhiteSpace) {
  ChannelReader reader(std::make_shared<const ChannelFormat>(FormatAfter(*FamilyByName("think"), "<think>\n")));
  (void)reader.Push("a</think>");
  reader.BeginAnswer();
  EXPECT_EQ(reader.Push("\n x").text, "\n x");
}

TEST(ChannelReader, EndlessHeaderUsesNoMemory) {
  ChannelReader reader(std::make_shared<const ChannelFormat>(FormatAfter(*FamilyByName("harmony"), "")));
  for (int i = 0; i < 1000; ++i) {
    const ChannelParts parts = reader.Push(std::string(1000, 'x'));
    ASSERT_EQ(parts.text + parts.reasoning, "");
  }
  (void)reader.PushSpecial("<|channel|>");
  (void)reader.Push("final");
  (void)reader.PushSpecial("<|message|>");
  EXPECT_TRUE(reader.in_answer());
}

TEST(ChannelReader, OnlyEndOfFinalMessageEndsTheTurn) {
  ChannelReader reader(std::make_shared<const ChannelFormat>(FormatAfter(*FamilyByName("harmony"), "")));
  const auto say = [&](const std::string& sampled) {
    for (const SampledUnit& unit : SampledUnitsOf(sampled))
      (void)(unit.special ? reader.PushSpecial(unit.text) : reader.Push(unit.text));
  };
  say("[[<|channel|>]]analysis[[<|message|>]]a");
  EXPECT_TRUE(reader.Continues("<|end|>"));
  EXPECT_FALSE(reader.Continues("<|return|>"));
  say("[[<|end|>]][[<|start|>]]assistant[[<|channel|>]]commentary[[<|message|>]]Look");
  EXPECT_TRUE(reader.Continues("<|end|>"));
  say("[[<|end|>]][[<|start|>]]assistant[[<|channel|>]]final[[<|message|>]]b");
  EXPECT_FALSE(reader.Continues("<|end|>"));
}

TEST(ChannelReader, AMarkerOfSeveralTokensEndsNoTurn) {
  ChannelReader reader(std::make_shared<const ChannelFormat>(FormatAfter(*FamilyByName("solar_open"), "")));
  (void)reader.PushSpecial("<|think|>");
  (void)reader.Push("Hm");
  EXPECT_TRUE(reader.Continues("<|end|>"));
  for (const char* name : {"<|end|>", "<|begin|>"}) (void)reader.PushSpecial(name);
  (void)reader.Push("assistant");
  (void)reader.PushSpecial("<|content|>");
  (void)reader.Push("Paris");
  EXPECT_FALSE(reader.Continues("<|end|>"));
}

TEST(ChannelReader, AHeaderShowsItsRecipientWhileItIsOpen) {
  ChannelReader reader(
      std::make_shared<const ChannelFormat>(FormatAfter(*FamilyByName("harmony"), "<|start|>assistant")));
  EXPECT_TRUE(reader.in_header());
  EXPECT_EQ(reader.recipient(), std::nullopt);
  (void)reader.PushSpecial("<|channel|>");
  EXPECT_EQ(reader.header(), "<|channel|>");
  (void)reader.Push("commentary to=");
  EXPECT_EQ(reader.recipient(), "");
  (void)reader.Push("functions.lo");
  (void)reader.Push("ok");
  EXPECT_EQ(reader.recipient(), "functions.look");
  (void)reader.PushSpecial("<|constrain|>");
  EXPECT_EQ(reader.recipient(), std::nullopt);
  (void)reader.PushSpecial("<|message|>");
  EXPECT_FALSE(reader.in_header());
  EXPECT_EQ(reader.header(), "");
}

TEST(ChannelFamilies, AreDetectedFromTheirTemplates) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ '<|start|>assistant<|channel|>final<|message|>' }}", "harmony"},
      {"{{ '<|channel>thought\n<channel|>' }}", "gemma4"},
      {"{% set think_begin_token = '<seed:think>' %}", "seed"},
      {"{{ '[THINK]' + block['thinking'] + '[/THINK]' }}", "mistral"},
      {"write your response between <response></response>; <think></think>", "granite"},
      {"{{ '<|begin|>assistant<|think|>' + thought + '<|end|>' }}", "solar_open"},
      {"{% macro open_tag(tag) %}{{ '<|open|>' + tag + '<|sep|>' }}{% endmacro %}", "kimi_k3"},
      {"{{ '\u25c1think\u25b7' }}{{ thought }}{{ '\u25c1/think\u25b7' }}", "kimi"},
      {"{{ 'Here are my reasoning steps:' }}{{ '[BEGIN FINAL RESPONSE]' }}", "apriel"},
      {"{{ '<thinking>' + thought + '</thinking>' }}", "apriel_tags"},
      {"{% set HYTK = ':opensource' %}{% set end = '</think{}>'.format(HYTK) %}", "hy_open"},
      {"{% set end = '</think{}>'.format('') %}", "hy"},
      {"{% if '</think>' in content %}", "think"},
  };
  for (const auto& [source, family] : cases) {
    ASSERT_NE(FamilyOfTemplate(source), nullptr) << source;
    EXPECT_EQ(FamilyOfTemplate(source)->name, family);
  }
  EXPECT_EQ(FamilyOfTemplate("{{ '<|im_start|>assistant' }}"), nullptr);
}

}  // namespace
}  // namespace ringside
