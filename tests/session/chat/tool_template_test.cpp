// Conversations with tools: renderings equal jinja2's, whole and turn by turn; see
// tests/golden/make_tool_template_golden.py. Also templates without tool support.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "session/chat/timeline/timeline.h"
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
      if (message.contains("tool_call_id")) out.model_ids.push_back(message.at("tool_call_id"));
      for (const Json& call : message.at("tool_calls")) {
        AppendToolCall(call.at(0).get<std::string>(), call.at(1).get<std::string>(), &out.content, &out.calls_at);
        if (call.size() > 2) out.model_ids.push_back(call.at(2));
      }
    }
  }
  return cases;
}

/// Learned once per program.
ChatTemplate TemplateOf(const std::string& name) {
  static std::map<std::string, ChatTemplate> known;
  if (const auto found = known.find(name); found != known.end()) return found->second;
  ChatTemplate::Facts facts{"", "<|im_end|>"};
  if (name == "llama3.1") facts = {"<|begin_of_text|>", "<|eot_id|>"};
  if (name.starts_with("mistral")) facts = {"<s>", "</s>"};
  Result<ChatTemplate> chat = ChatTemplate::Recognise(ReadFile(name + "_tools.jinja"), facts);
  EXPECT_EQ(chat->name(), name.substr(0, name.find('_')));
  return known.emplace(name, std::move(*chat)).first->second;
}

TEST(ToolTemplate, ReportsItsSyntax) {
  EXPECT_EQ(TemplateOf("qwen2.5").tool_syntax(), ToolSyntaxName::kHermes);
  EXPECT_EQ(TemplateOf("llama3.1").tool_syntax(), ToolSyntaxName::kLlama);
  EXPECT_EQ(TemplateOf("mistral_v3").tool_syntax(), ToolSyntaxName::kMistral);
  EXPECT_EQ(TemplateOf("mistral_tekken").tool_syntax(), ToolSyntaxName::kMistralTekken);
  EXPECT_EQ(ChatTemplate::Named("llama3.1")->tool_syntax(), ToolSyntaxName::kLlama);
  EXPECT_EQ(ChatTemplate::Named("llama3")->tool_syntax(), ToolSyntaxName::kHermes);
  // Templates without tool support get the tools as text.
  for (const char* name : {"llama3.1", "mistral_v3", "mistral_v7"}) {
    const ChatTemplate chat =
        std::move(ChatTemplate::Recognise(ReadFile(std::string(name) + ".jinja"), {"<s>", "</s>"}).value());
    EXPECT_EQ(chat.tool_syntax(), ToolSyntaxName::kHermes);
    const std::string told = chat.Render({}, TimelineEnd::kNothing, false, "{}").Text();
    EXPECT_THAT(told, ::testing::Not(::testing::HasSubstr("ipython")));
  }
  // A caveat reports that the tool list moves with the questions.
  EXPECT_THAT(TemplateOf("mistral_v3").caveat(), ::testing::HasSubstr("tools are told before the first"));
  EXPECT_THAT(TemplateOf("mistral_v3_first").caveat(), ::testing::Not(::testing::HasSubstr("tools are told")));
}

TEST(ToolTemplate, WholeConversationMatchesJinja) {
  const std::vector<Case> cases = Cases();
  ASSERT_EQ(cases.size(), 84u);
  for (const Case& one : cases) {
    const ChatTemplate chat = TemplateOf(one.name);
    ASSERT_EQ(chat.Render(one.messages, TimelineEnd::kNothing, true, one.tools).Text(), one.text) << one.name;
  }
}

TEST(ToolTemplate, TurnByTurnMatchesJinja) {
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
    ASSERT_EQ(text, one.text) << one.name;
  }
}

TEST(ToolTemplate, KeepsCallsInItsSyntax) {
  for (const Case& one : Cases()) {
    if (one.name != "llama3.1" && one.name != "mistral_v3" && one.name != "mistral_tekken") continue;
    const ChatTemplate chat = TemplateOf(one.name);
    // The template's rendering of each message with calls equals the model's own output.
    std::vector<ChatMessage> sampled = one.messages;
    for (ChatMessage& message : sampled) {
      if (message.calls_at < 0) continue;
      const std::string rendered = chat.Render({&message, 1}, TimelineEnd::kMessageDone, false).Text();
      const std::string& open = chat.assistant_open();
      message.content = rendered.substr(open.size(), rendered.size() - open.size() - chat.end_of_turn().size());
      message.calls_at = 0;
      message.model_ids.clear();
    }
    ASSERT_EQ(chat.Render(sampled, TimelineEnd::kNothing, true, one.tools).Text(), one.text) << one.name;
  }
}

TEST(ToolTemplate, PinsToolsInAUserMessage) {
  for (const char* name : {"llama3.1", "mistral_v3", "mistral_tekken"}) {
    const ChatTemplate chat = TemplateOf(name);
    for (const bool system : {true, false}) {
      std::vector<ChatMessage> messages = {{ChatRole::kSystem, "S"}, {ChatRole::kUser, "Hi"}};
      if (!system) messages.erase(messages.begin());
      const Rendering rendering = chat.Render(messages, TimelineEnd::kNothing, true, "{\"t\": 1}");
      std::string pinned;
      for (size_t i = 0; i < rendering.pinned_pieces; ++i) pinned += rendering.pieces[i].text;
      EXPECT_THAT(pinned, ::testing::HasSubstr("\"t\": 1")) << name;
      EXPECT_THAT(pinned, ::testing::Not(::testing::HasSubstr("Hi"))) << name;
    }
  }
}

TEST(ToolTemplate, ContentIsNotMarkup) {
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

TEST(ToolTemplate, EveryTemplateRendersToolsAndResults) {
  const std::string tools = R"({"type": "function", "function": {"name": "f"}})";
  std::vector<ChatMessage> messages = {{ChatRole::kUser, "Hi"},
                                       {ChatRole::kAssistant, ""},
                                       {ChatRole::kTool, "R1"},
                                       {ChatRole::kTool, "R2"},
                                       {ChatRole::kUser, "So?"}};
  AppendToolCall("f", "{}", &messages[1].content, &messages[1].calls_at);
  for (const std::string_view name : ChatTemplate::Names()) {
    const ChatTemplate chat = std::move(ChatTemplate::Named(name).value());
    const ToolSyntax& syntax = SyntaxOf(chat.tool_syntax());
    const std::string text = chat.Render(messages, TimelineEnd::kNothing, true, tools).Text();
    const size_t told = text.find(syntax.before_tools), call = text.rfind(std::string(syntax.opening) + "f\"");
    const std::string result = std::string(syntax.before_result) + (syntax.quoted ? "\"R1\"" : "R1");
    const size_t first = text.find(result), second = text.find("R2", first);
    EXPECT_TRUE(told < call && call < first && first < second && second < text.find("So?")) << name << '\n' << text;
    // The concatenated pieces give the same text.
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

TEST_F(ToolTimeline, RendersToolsAtTheStart) {
  timeline_.AddItem(Said(ChatRole::kUser, "Hi"));
  ASSERT_TRUE(timeline_.SetHead({{}, "T"}, codec_, 2000).ok());
  ASSERT_TRUE(timeline_.Render(codec_, true, 2000).ok());
  EXPECT_TRUE(Text().starts_with("<|im_start|>system\n# Tools\n")) << Text();
  const int64_t pinned = timeline_.pinned();
  EXPECT_GT(pinned, 300);
  Item answer;
  answer.id = "msg_a";
  timeline_.CloseAnswer(answer, Bytes("Yo"), codec_);
  // A changed or removed tool list replaces the old one; sampled tokens are kept.
  ASSERT_TRUE(timeline_.SetHead({"Be kind.", "T\nU"}, codec_, 2000).value());
  EXPECT_TRUE(Text().starts_with("<|im_start|>system\nBe kind.\n\n# Tools\n"));
  EXPECT_TRUE(Text().ends_with("<|im_start|>assistant\nYo"));
  ASSERT_TRUE(timeline_.SetHead({}, codec_, 2000).value());
  EXPECT_TRUE(Text().starts_with("<|im_start|>user\nHi<|im_end|>\n")) << Text();
  EXPECT_TRUE(Text().ends_with("<|im_start|>assistant\nYo"));
}

TEST_F(ToolTimeline, ConsecutiveResultsAreOneMessage) {
  for (const char* text : {"A", "B"}) timeline_.AddItem(Said(ChatRole::kTool, text));
  ASSERT_TRUE(timeline_.Render(codec_, true, 2000).ok());
  EXPECT_EQ(timeline_.message_starts().size(), 2u);  // its own, and the answer's
  EXPECT_EQ(timeline_.items()[1].end, TimelineEnd::kResultsOpen);
  // Cut between the calls and continued, the text is the same.
  const std::string text = Text();
  Timeline cut = timeline_;
  cut.KeepItems(1);
  cut.AddItem(Said(ChatRole::kTool, "B"));
  ASSERT_TRUE(cut.Render(codec_, true, 2000).ok());
  EXPECT_EQ(tokenizer_.Decode(cut.tokens().From(0)), text);
}

TEST_F(ToolTimeline, AnswerTruncatedInACallContinues) {
  const auto cut = [&](const std::string& text, int64_t calls_at) {
    Timeline timeline;
    EXPECT_TRUE(timeline.SetHead({std::nullopt, "T"}, codec_, 2000).ok());
    timeline.AddItem(Said(ChatRole::kUser, "Hi"));
    EXPECT_TRUE(timeline.Render(codec_, true, 2000).ok());
    Item answer = Said(ChatRole::kAssistant, text);
    answer.complete = false;
    answer.calls_at = calls_at;
    timeline.CloseAnswer(answer, Bytes(text), codec_);
    return timeline.CanReopen();
  };
  EXPECT_TRUE(cut("Hm", -1));
  EXPECT_TRUE(cut("Hm <tool_", -1));
  EXPECT_TRUE(cut("Hm\n<tool_call>\n{\"name\": \"f\", \"arguments\": {", 2));
}

class MistralTimeline : public ::testing::Test {
 protected:
  static Item Said(ChatRole role, const std::string& text, const std::string& call_ids = "") {
    Item item;
    item.id = "msg_0123456789";
    item.role = role;
    item.text = text;
    item.call_ids = call_ids;
    return item;
  }
  std::string Rendered() {
    EXPECT_TRUE(timeline_.Render(codec_, true, 4000).ok());
    return tokenizer_.Decode(timeline_.tokens().From(0));
  }

  ByteTokenizer tokenizer_;
  ChatTemplate chat_ = TemplateOf("mistral_v3");
  const Codec codec_{tokenizer_, chat_, 1024};
  Timeline timeline_;
};

TEST_F(MistralTimeline, ResultsNameTheModelsCalls) {
  timeline_.AddItem(Said(ChatRole::kUser, "Hi"));
  ASSERT_TRUE(timeline_.SetHead({std::nullopt, "{\"t\": 1}"}, codec_, 4000).ok());
  EXPECT_EQ(Rendered(), "<s>[AVAILABLE_TOOLS] [{\"t\": 1}][/AVAILABLE_TOOLS][INST] Hi[/INST]");
  const std::string sampled = R"([TOOL_CALLS] [{"name": "f", "arguments": {}, "id": "aaaaaaaaa"}, )"
                              R"({"name": "f", "arguments": {}, "id": "bbbbbbbbb"}])";
  Item answer = Said(ChatRole::kAssistant, sampled);
  answer.calls_at = 0;
  timeline_.CloseAnswer(answer, Bytes(sampled), codec_);
  // In any order, and with the ids of any API.
  timeline_.AddItem(Said(ChatRole::kTool, "2", ToolCallId("toolu_", answer.id, 1)));
  timeline_.AddItem(Said(ChatRole::kTool, "1", ToolCallId("call_", answer.id, 0)));
  timeline_.AddItem(Said(ChatRole::kTool, "?", "call_of_somebody"));
  EXPECT_TRUE(Rendered().ends_with(R"([TOOL_RESULTS] {"content": 2, "call_id": "bbbbbbbbb"}[/TOOL_RESULTS])"
                                   R"([TOOL_RESULTS] {"content": 1, "call_id": "aaaaaaaaa"}[/TOOL_RESULTS])"
                                   R"([TOOL_RESULTS] {"content": ?, "call_id": "fsomebody"}[/TOOL_RESULTS])"))
      << Rendered();
}

TEST_F(MistralTimeline, ClientCallIdsAreDerived) {
  timeline_.AddItem(Said(ChatRole::kUser, "Hi"));
  std::string text = "dropped";
  Item calls = Said(ChatRole::kAssistant, "", "chatcmpl-tool-12345678\n\n");
  for (int i = 0; i < 2; ++i) AppendToolCall("f", "{}", &text, &calls.calls_at);
  calls.text = text;
  timeline_.AddItem(calls);
  timeline_.AddItem(Said(ChatRole::kTool, "1", "chatcmpl-tool-12345678"));
  timeline_.AddItem(Said(ChatRole::kTool, "2", ToolCallId("call_", calls.id, 1)));
  EXPECT_EQ(Rendered(), R"(<s>[INST] Hi[/INST][TOOL_CALLS] [{"name": "f", "arguments": {}, "id": "l12345678"}, )"
                        R"({"name": "f", "arguments": {}, "id": "234567891"}]</s>)"
                        R"([TOOL_RESULTS] {"content": 1, "call_id": "l12345678"}[/TOOL_RESULTS])"
                        R"([TOOL_RESULTS] {"content": 2, "call_id": "234567891"}[/TOOL_RESULTS])");
}

TEST(LlamaTimeline, ACallMayEndItsMessageOtherwise) {
  class Eom final : public ByteTokenizer {
   public:
    std::string_view TokenName(TokenId id) const override {
      return id == 300 ? "<|eom_id|>" : ByteTokenizer::TokenName(id);
    }
  };
  const Eom tokenizer;
  const ChatTemplate chat = TemplateOf("llama3.1");
  const Codec codec{tokenizer, chat, 1024};
  for (const bool eom : {true, false}) {
    Timeline timeline;
    Item hi;
    hi.text = "Hi";
    timeline.AddItem(hi);
    ASSERT_TRUE(timeline.Render(codec, true, 4000).ok());
    std::vector<TokenId> output = Bytes("Yo");
    if (eom) output.push_back(300);
    Item answer;
    answer.text = "Yo";
    timeline.CloseAnswer(answer, output, codec);
    timeline.AddItem(hi);
    ASSERT_TRUE(timeline.Render(codec, false, 4000).ok());
    std::string text;
    for (const TokenId id : timeline.tokens().From(0)) text += tokenizer.TokenName(id);
    EXPECT_TRUE(text.ends_with(std::string("Yo") + (eom ? "<|eom_id|>" : "<|eot_id|>") +
                               "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"))
        << text;
  }
}

}  // namespace
}  // namespace ringside
