// Conversations with tools, equal to jinja2's renderings in one piece and turn by turn; see
// tests/golden/make_tool_template_golden.py. What other templates make of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "session/chat/timeline.h"
#include "session/tools/tool_calls.h"
#include "tests/golden_folder.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

using Json = nlohmann::json;

std::string ReadFile(const std::string& name) {
  std::ifstream file(GoldenFolder("chat_template/") + name, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

struct Case {
  std::string name, tools, text;
  std::vector<ChatMessage> messages;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Json& row : Json::parse(ReadFile("tools.json"))) {
    Case& one = cases.emplace_back();
    one.name = row.at("template");
    one.text = row.at("text");
    for (const Json& line : row.at("tools")) {
      if (!one.tools.empty()) one.tools += '\n';
      one.tools += line.get<std::string>();
    }
    for (const Json& message : row.at("messages")) {
      const std::string role = message.at("role");
      ChatMessage& out = one.messages.emplace_back();
      out.role = role == "tool" ? ChatRole::kTool : ParseChatRole(role).value();
      out.content = message.at("content");
      for (const Json& call : message.at("tool_calls")) {
        AppendToolCall(call.at(0).get<std::string>(), call.at(1).get<std::string>(), &out.content, &out.calls_at);
      }
    }
  }
  return cases;
}

ChatTemplate TemplateOf(const std::string& name) {
  Result<ChatTemplate> chat = ChatTemplate::Recognise(ReadFile(name + "_tools.jinja"), {"", "<|im_end|>"});
  EXPECT_EQ(chat->name(), name);
  return std::move(*chat);
}

TEST(ToolTemplate, WholeAsJinja) {
  const std::vector<Case> cases = Cases();
  ASSERT_EQ(cases.size(), 24u);
  for (const Case& one : cases) {
    const ChatTemplate chat = TemplateOf(one.name);
    ASSERT_EQ(chat.Render(one.messages, TimelineEnd::kNothing, true, one.tools).Text(), one.text);
  }
}

TEST(ToolTemplate, TurnByTurnAsJinja) {
  std::mt19937 random(3);
  for (const Case& one : Cases()) {
    const ChatTemplate chat = TemplateOf(one.name);
    std::string text;
    TimelineEnd end = TimelineEnd::kNothing;
    const std::span<const ChatMessage> messages = one.messages;
    for (size_t from = 0; from < messages.size();) {
      const size_t count = 1 + random() % (messages.size() - from);
      const Rendering part = chat.Render(messages.subspan(from, count), end, false, one.tools);
      text += part.Text();
      end = part.end;
      from += count;
    }
    text += chat.Render({}, end, true, one.tools).Text();
    ASSERT_EQ(text, one.text);
  }
}

TEST(ToolTemplate, NothingThatIsSaidIsMarkup) {
  const ChatTemplate chat = std::move(ChatTemplate::Named("chatml").value());
  const ChatMessage messages[] = {{ChatRole::kTool, "<|im_end|>"}, {ChatRole::kTool, "</tool_response>"}};
  const Rendering rendering = chat.Render(messages, TimelineEnd::kNothing, false, "<|im_start|>");
  int said = 0;
  for (const TextPiece& piece : rendering.pieces) {
    if (piece.markup) continue;
    ++said;
    EXPECT_TRUE(piece.text == "<|im_end|>" || piece.text == "</tool_response>" || piece.text == "<|im_start|>");
  }
  EXPECT_EQ(said, 3);
}

TEST(ToolTemplate, EveryTemplateTellsAndAnswers) {
  const std::string tools = R"({"type": "function", "function": {"name": "f"}})";
  std::vector<ChatMessage> messages = {{ChatRole::kUser, "Hi"},
                                       {ChatRole::kAssistant, ""},
                                       {ChatRole::kTool, "R1"},
                                       {ChatRole::kTool, "R2"},
                                       {ChatRole::kUser, "So?"}};
  AppendToolCall("f", "{}", &messages[1].content, &messages[1].calls_at);
  for (const std::string_view name : ChatTemplate::Names()) {
    const ChatTemplate chat = std::move(ChatTemplate::Named(name).value());
    const std::string text = chat.Render(messages, TimelineEnd::kNothing, true, tools).Text();
    const size_t told = text.find("<tools>\n" + tools + "\n</tools>"),
                 call = text.rfind("<tool_call>\n{\"name\": \"f\"");
    const size_t results = text.find("<tool_response>\nR1\n</tool_response>\n<tool_response>\nR2\n</tool_response>");
    EXPECT_TRUE(told < call && call < results && results < text.find("So?")) << name << '\n' << text;
    // In pieces it is the same text.
    std::string joined;
    TimelineEnd end = TimelineEnd::kNothing;
    for (const ChatMessage& message : messages) {
      const Rendering part = chat.Render({&message, 1}, end, false, tools);
      joined += part.Text();
      end = part.end;
    }
    EXPECT_EQ(joined + chat.Render({}, end, true, tools).Text(), text) << name;
  }
}

class ToolTimeline : public ::testing::Test {
 protected:
  std::string Text() const { return tokenizer_.Decode(timeline_.tokens().From(0)); }
  static Item Said(ChatRole role, const std::string& text) {
    Item item;
    item.id = "msg_" + text;
    item.role = role;
    item.text = text;
    return item;
  }

  ByteTokenizer tokenizer_;
  ChatTemplate chat_ = std::move(ChatTemplate::Named("chatml").value());
  const Codec codec_{tokenizer_, chat_, 1024};
  Timeline timeline_;
};

TEST_F(ToolTimeline, ToolsAreToldAtTheHead) {
  timeline_.AddItem(Said(ChatRole::kUser, "Hi"));
  ASSERT_TRUE(timeline_.SetHead({{}, "T"}, codec_, 2000).ok());
  ASSERT_TRUE(timeline_.Render(codec_, true, 2000).ok());
  EXPECT_TRUE(Text().starts_with("<|im_start|>system\n# Tools\n")) << Text();
  const int64_t pinned = timeline_.pinned();
  EXPECT_GT(pinned, 300);
  Item answer;
  answer.id = "msg_a";
  timeline_.CloseAnswer(answer, Bytes("Yo"), codec_);
  // Others, or none, are told in their place; what was sampled stays.
  ASSERT_TRUE(timeline_.SetHead({"Be kind.", "T\nU"}, codec_, 2000).value());
  EXPECT_TRUE(Text().starts_with("<|im_start|>system\nBe kind.\n\n# Tools\n"));
  EXPECT_TRUE(Text().ends_with("<|im_start|>assistant\nYo"));
  ASSERT_TRUE(timeline_.SetHead({}, codec_, 2000).value());
  EXPECT_TRUE(Text().starts_with("<|im_start|>user\nHi<|im_end|>\n")) << Text();
  EXPECT_TRUE(Text().ends_with("<|im_start|>assistant\nYo"));
}

TEST_F(ToolTimeline, ResultsThatFollowOneAnotherAreOneMessage) {
  for (const char* text : {"A", "B"}) timeline_.AddItem(Said(ChatRole::kTool, text));
  ASSERT_TRUE(timeline_.Render(codec_, true, 2000).ok());
  EXPECT_EQ(timeline_.message_starts().size(), 2u);  // theirs, and the answer's
  EXPECT_EQ(timeline_.items()[1].end, TimelineEnd::kResultsOpen);
  // Cut between them and gone on with, it is the same text.
  const std::string text = Text();
  Timeline cut = timeline_;
  cut.KeepItems(1);
  cut.AddItem(Said(ChatRole::kTool, "B"));
  ASSERT_TRUE(cut.Render(codec_, true, 2000).ok());
  EXPECT_EQ(tokenizer_.Decode(cut.tokens().From(0)), text);
}

TEST_F(ToolTimeline, AnAnswerCutInACallDoesNotGoOn) {
  const auto cut = [&](const std::string& text, int64_t calls_at, const char* tools = "T") {
    Timeline timeline;
    EXPECT_TRUE(timeline.SetHead({std::nullopt, tools}, codec_, 2000).ok());
    timeline.AddItem(Said(ChatRole::kUser, "Hi"));
    EXPECT_TRUE(timeline.Render(codec_, true, 2000).ok());
    Item answer = Said(ChatRole::kAssistant, text);
    answer.complete = false;
    answer.calls_at = calls_at;
    timeline.CloseAnswer(answer, Bytes(text), codec_);
    return timeline.CanReopen();
  };
  EXPECT_TRUE(cut("Hm", -1));
  EXPECT_FALSE(cut("Hm <tool_", -1));
  EXPECT_TRUE(cut("Hm <tool_", -1, "")) << "without tools it is text";
  EXPECT_FALSE(cut("Hm\n<tool_call>\n{\"name\": \"f\", \"arguments\": {", 2));
}

}  // namespace
}  // namespace ringside
