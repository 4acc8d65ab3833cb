// Conversations that a template's format writes otherwise than the template: they are rendered by the template itself.
#include "session/chat/templates/conversation_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/sequence.h"
#include "session/chat/templates/template_run.h"
#include "session/chat/timeline/timeline.h"
#include "session/tools/tool_calls.h"
#include "tests/session/chat/golden_template.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;

const ChatTemplate::Facts kFacts = {"<s>", "<|im_end|>"};
const std::vector<std::string> kTags = {"<mark>"};

ChatRole RoleOf(char letter) {
  return letter == 's'   ? ChatRole::kSystem
         : letter == 'u' ? ChatRole::kUser
         : letter == 't' ? ChatRole::kTool
                         : ChatRole::kAssistant;
}

/// A message for each letter: "c" is an answer with a call.
uint32_t KindsOf(const std::string& letters, bool opens_answer = true) {
  KindReader reader(kTags, /*tells_tools=*/false);
  for (const char letter : letters) reader.Add({.role = RoleOf(letter), .text = "x", .calls = letter == 'c'});
  return reader.Kinds(opens_answer);
}

TEST(ConversationKinds, Roles) {
  for (const char* letters : {"", "u", "uau", "uauau"}) EXPECT_EQ(KindsOf(letters), 0u) << letters;
  EXPECT_EQ(KindsOf("suau"), kWithSystem);
  EXPECT_EQ(KindsOf("uasu"), kWithLateSystem);
  for (const char* letters : {"uu", "a", "uaau", "ua"}) EXPECT_EQ(KindsOf(letters), kOutOfTurn) << letters;
  EXPECT_EQ(KindsOf("ua", /*opens_answer=*/false), 0u);
  for (const char* letters : {"uct", "uctctau", "ucttau"}) EXPECT_EQ(KindsOf(letters), kWithTools) << letters;
  EXPECT_EQ(KindsOf("uctu"), kWithTools | kOutOfTurn);
  EXPECT_EQ(KindsOf("s"), kWithSystem | kOutOfTurn);
}

TEST(ConversationKinds, Texts) {
  KindReader blank({}, /*tells_tools=*/false);
  blank.Add({.role = ChatRole::kSystem, .text = "x"});
  blank.Add({.role = ChatRole::kUser, .text = " \n"});
  EXPECT_EQ(blank.Kinds(true), kWithSystem | kBlankBehindSystem);
  KindReader reader(kTags, /*tells_tools=*/true);
  reader.Add({.role = ChatRole::kUser, .text = "<think>"});
  EXPECT_EQ(reader.Kinds(true), kWithTools);
  reader.Add({.role = ChatRole::kAssistant, .text = "hm</think>", .reasoning = true});
  reader.Add({.role = ChatRole::kUser, .text = "a <mark>"});
  EXPECT_EQ(reader.Kinds(true), kWithTools | kWithThinking | kWithReasoning | kWithTags);
}

Status Render(const ChatTemplate& chat, const std::string& letters, bool refuses, std::string* text) {
  const ByteTokenizer tokenizer;
  Codec codec{tokenizer, chat, 1 << 20};
  codec.refuses = refuses;
  Timeline timeline;
  for (size_t i = 0; i < letters.size(); ++i) {
    timeline.AddItem({.role = RoleOf(letters[i]), .text = "Text" + std::to_string(i)});
  }
  RETURN_IF_ERROR(timeline.Render(codec, true, 1 << 20));
  *text = tokenizer.Decode(timeline.tokens().From(0));
  return Status::Ok();
}

TEST(ConversationKinds, WhatTheFormatCannotWriteTheTemplateDoes) {
  for (const auto& [name, letters] :
       {std::pair("olmo2", "uuaa"), std::pair("deepseek_r1", "uausu"), std::pair("harmony", "uasau")}) {
    const std::string source = GoldenTemplate(name);
    const ChatTemplate chat = ChatTemplate::Recognise(source, kFacts).value();
    EXPECT_FALSE(chat.renders_whole()) << name;
    std::vector<ChatMessage> messages;
    for (size_t i = 0; letters[i] != '\0'; ++i) messages.push_back({RoleOf(letters[i]), "Text" + std::to_string(i)});
    std::string text;
    ASSERT_TRUE(Render(chat, letters, /*refuses=*/true, &text).ok()) << name;
    EXPECT_EQ(text, TemplateRun::FromSource(source, kFacts)->Text(messages, true).value()) << name;
  }
}

Timeline Rendered(const ChatTemplate& chat, const std::string& letters) {
  const ByteTokenizer tokenizer;
  const Codec codec{tokenizer, chat, 1 << 20};
  Timeline timeline;
  for (size_t i = 0; i < letters.size(); ++i) {
    timeline.AddItem({.role = RoleOf(letters[i]), .text = "Text" + std::to_string(i)});
  }
  return timeline.Render(codec, true, 1 << 20).ok() ? timeline : Timeline();
}

/// The first message start after the pinned tokens at which the timelines differ, or their common length in tokens.
int64_t CommonPrefixOf(const Timeline& a, const Timeline& b) {
  const std::vector<TokenId> tokens = a.tokens().From(0), other_tokens = b.tokens().From(0);
  const std::vector<int64_t> starts = a.message_starts().From(0), other_starts = b.message_starts().From(0);
  return CommonPrefix(tokens, starts, other_tokens, other_starts, a.pinned());
}

TEST(ConversationKinds, RenderingsOfACommonBeginningShareTheirPrefix) {
  int compared = 0;
  for (const std::string& name : GoldenTemplateNames()) {
    const Result<ChatTemplate> chat = ChatTemplate::Recognise(GoldenTemplate(name), kFacts);
    if (!chat.ok() || chat->renders_whole() || (chat->kinds_anew() & kOutOfTurn) == 0) continue;
    for (const auto& [letters, more] : {std::pair("uau", "uauaau"), std::pair("suau", "suauaau")}) {
      if ((KindsOf(letters) & chat->kinds_anew()) != 0) continue;
      const Timeline by_format = Rendered(*chat, letters), whole = Rendered(*chat, more);
      if (by_format.tokens().empty() || whole.tokens().empty()) continue;
      const std::string text = ByteTokenizer().Decode(whole.tokens().From(0));
      if (text.find("Text0") == std::string::npos) continue;  // the whole rendering drops a message
      // Everything up to the last question, where the format's rendering opens the answer.
      EXPECT_EQ(by_format.pinned(), whole.pinned()) << name << ' ' << letters;
      EXPECT_GE(CommonPrefixOf(by_format, whole), by_format.message_starts().From(0).back()) << name << ' ' << letters;
      ++compared;
    }
  }
  EXPECT_GE(compared, 10);
}

TEST(ConversationKinds, ARefusalIsAnErrorWhereTheTurnKeepsToTheTemplate) {
  const ChatTemplate chat = ChatTemplate::Recognise(GoldenTemplate("mistral_tekken"), {"<s>", "</s>"}).value();
  std::string text;
  const Status refused = Render(chat, "uu", /*refuses=*/true, &text);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("roles must alternate"));
  ASSERT_TRUE(Render(chat, "uu", /*refuses=*/false, &text).ok());
  EXPECT_EQ(text, "<s>[INST]Text0[/INST][INST]Text1[/INST]");
  ASSERT_TRUE(Render(chat, "uau", /*refuses=*/true, &text).ok());
}

TEST(ConversationKinds, ArgumentsThatAClientGivesAreWrittenAsTheTemplateDoes) {
  const ChatTemplate chat = ChatTemplate::Recognise(GoldenTemplate("qwen2.5_tools"), kFacts).value();
  ChatMessage call = {ChatRole::kAssistant, ""};
  AppendToolCall("look", R"({"what":"\u4f60", "n":[1,2]})", &call.content, &call.calls_at);
  const std::string text = chat.Render({&call, 1}, TimelineEnd::kMessageDone, false).Text();
  EXPECT_THAT(text, HasSubstr("{\"what\": \"\u4f60\", \"n\": [1, 2]}"));
}

}  // namespace
}  // namespace ringside
