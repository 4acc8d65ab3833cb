// What is learned of templates by running them, and what is said where they cannot be followed. That renderings are
// equal is in chat_template_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "session/chat/chat_template.h"
#include "tests/golden_folder.h"

namespace ringside {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Golden(const std::string& name) {
  std::ifstream file(GoldenFolder("chat_template/") + name + ".jinja", std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

ChatTemplate Learned(const std::string& source, const ChatTemplate::Facts& facts = {"<s>", "</s>"}) {
  Result<ChatTemplate> chat = ChatTemplate::Recognise(source, facts);
  if (!chat.ok()) ADD_FAILURE() << source << "\n" << chat.status().ToString();
  return chat.ok() ? *std::move(chat) : *ChatTemplate::Named("plain");
}

const std::vector<ChatMessage> kTalk = {
    {ChatRole::kSystem, "S"}, {ChatRole::kUser, "Q"}, {ChatRole::kAssistant, "A"}, {ChatRole::kUser, "R"}};

std::string Rendered(const ChatTemplate& chat, std::span<const ChatMessage> messages) {
  return chat.Render(messages, TimelineEnd::kNothing, true).Text();
}

TEST(TemplateLearning, AnyMarkupIsLearned) {
  const ChatTemplate chat = Learned(
      "{{ bos_token }}{% for m in messages %}{{ {'system': '(rules)', 'user': '(asks)', 'assistant': '(says)'}[m.role] "
      "}} "
      "{{ m.content | trim }}{{ ' <end>\n' if m.role == 'assistant' else ' (over)\n' }}{% endfor %}"
      "{% if add_generation_prompt %}(says) {% endif %}");
  EXPECT_EQ(chat.name(), "own");
  EXPECT_EQ(chat.caveat(), "");
  EXPECT_EQ(chat.assistant_open(), "(says) ");
  EXPECT_EQ(chat.end_of_turn(), "<end>");
  EXPECT_EQ(Rendered(chat, kTalk), "<s>(rules) S (over)\n(asks) Q (over)\n(says) A <end>\n(asks) R (over)\n(says) ");
}

TEST(TemplateLearning, AnAnswerThatIsSampledMayBeOpenedOtherwiseThanAGivenOne) {
  const ChatTemplate chat = Learned(Golden("deepseek_r1"), {"<b>", "<e>"});
  EXPECT_TRUE(Rendered(chat, kTalk).ends_with("><think>\n"));
  EXPECT_EQ(chat.assistant_open().find("<think>"), std::string::npos);
  const std::vector<ChatMessage> thinks = {{ChatRole::kUser, "Q"}, {ChatRole::kAssistant, "hm</think>\n\nA"}};
  EXPECT_THAT(Rendered(chat, thinks), AllOf(HasSubstr("\n\nA"), testing::Not(HasSubstr("hm"))));
}

TEST(TemplateLearning, TheLastAnswersEndIsAnEndAsWell) {
  const ChatTemplate chat = Learned(Golden("harmony"), {"<|startoftext|>", "<|return|>"});
  EXPECT_EQ(chat.end_of_turn(), "<|end|>");
  EXPECT_TRUE(chat.EndsAnswer("<|end|>"));
  EXPECT_TRUE(chat.EndsAnswer("<|return|>"));
  EXPECT_FALSE(chat.EndsAnswer("<|start|>"));
}

TEST(TemplateLearning, WhatCannotBeFollowedIsSaid) {
  const std::pair<const char*, const char*> caveats[] = {
      {"gemma", "system messages, which the template refuses"},
      {"phi3_first", "system messages, which the template drops"},
      {"qwen3", "the thinking of earlier answers stays"},
      {"olmo2", "messages out of turn"},
      {"deepseek_r1", "later system messages"},
      {"qwen2.5", "in Hermes' words"},
      {"mistral_tekken_tools", "a system message is not written as the template does it in every turn"},
  };
  for (const auto& [name, words] : caveats) EXPECT_THAT(Learned(Golden(name)).caveat(), HasSubstr(words)) << name;
  for (const char* name : {"chatml", "llama3", "granite3", "llama4", "deepseek_v2", "qwen2.5_tools"}) {
    EXPECT_EQ(Learned(Golden(name)).caveat(), "") << name;
  }
}

TEST(TemplateLearning, ADateIsThatOfTheStart) {
  const std::string source =
      "{% if strftime_now is defined %}{% set date = strftime_now('%d %b %Y') %}{% else %}{% set date = '1 Jan 2000' %}"
      "{% endif %}<|sys|>{{ date }}\n\n{% if messages[0].role == 'system' %}{{ messages[0].content }}"
      "{% set messages = messages[1:] %}{% endif %}<|end|>{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>"
      "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
  const ChatTemplate chat = Learned(source);
  EXPECT_THAT(chat.caveat(), HasSubstr("the date"));
  EXPECT_THAT(Rendered(chat, kTalk), AllOf(HasSubstr("\n\nS<|end|>"), testing::Not(HasSubstr("1 Jan 2000"))));
}

TEST(TemplateLearning, ATemplateWithoutAFormatIsRefusedSayingWhy) {
  const std::pair<std::string, const char*> sources[] = {
      {"{% for m in messages %}{% if loop.last %}[LAST]{% endif %}{{ m.role }}: {{ m.content }}\n{% endfor %}A:",
       "a second question is written otherwise"},
      {"{% for m in messages %}{{ m.content | length }}:{{ m.role }}:{{ m.content }}</s>{% endfor %}",
       "the template writes"},
      {"{% for m in messages %}{{ m.role }}:{{ m.content }}{{ m.content }}</s>{% endfor %}", "role user"},
      {"{% for m in messages %}{{ m.role }}{% endfor %}", "role user"},
      {"{{ raise_exception('not today') }}", "not today"},
      {"{{ messages.content.parts }}", "line 1"},
      {"{% for m in messages | groupby('role') %}{% endfor %}", "there is no filter 'groupby'"},
      {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "too many steps"},
  };
  for (const auto& [source, words] : sources) {
    const Result<ChatTemplate> chat = ChatTemplate::Recognise(source, {"<s>", "</s>"});
    ASSERT_FALSE(chat.ok()) << source;
    EXPECT_EQ(chat.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(chat.status().message(), AllOf(HasSubstr(words), HasSubstr("chatml"))) << source;
  }
}

}  // namespace
}  // namespace ringside
