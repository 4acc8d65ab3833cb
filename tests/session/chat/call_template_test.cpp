// Templates of families with their own tool syntax: the syntax is detected, and a conversation with calls is rendered
// as by jinja2; see tests/golden/make_call_template_golden.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "session/chat/timeline/timeline.h"
#include "session/tools/tool_calls.h"
#include "tests/golden_folder.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

std::string ReadGoldenTemplate(const std::string& name) {
  std::ifstream file(GoldenFolder("chat_template/") + name, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

struct TemplateCase {
  std::string name, tools, text;
  ToolSyntaxName syntax;
  std::vector<std::string> ids, arguments;
  ChatTemplate chat;
};

std::vector<TemplateCase> TemplateCases() {
  std::vector<TemplateCase> cases;
  for (const Json& row : Json::parse(ReadGoldenTemplate("calls.json"))) {
    const std::string name = row.at("template");
    Result<ChatTemplate> chat =
        ChatTemplate::Recognise(ReadGoldenTemplate(name + "_calls.jinja"), {"<s>", row.at("eos")});
    EXPECT_TRUE(chat.ok()) << name << ": " << chat.status().ToString();
    if (!chat.ok()) continue;
    cases.push_back({name, row.at("tools")[0], row.at("text"), static_cast<ToolSyntaxName>(row.at("syntax")),
                     row.at("ids"), row.at("arguments"), std::move(*chat)});
  }
  return cases;
}

std::vector<ChatMessage> CalledConversation(const TemplateCase& one) {
  ChatMessage call = {ChatRole::kAssistant, "I look.", -1, one.ids};
  for (const std::string& arguments : one.arguments) AppendToolCall("look", arguments, &call.content, &call.calls_at);
  return {{ChatRole::kSystem, "Be kind."},
          {ChatRole::kUser, "Which?"},
          call,
          {ChatRole::kTool, "Found " + one.ids[0], -1, {one.ids[0]}},
          {ChatRole::kTool, "Found " + one.ids[1], -1, {one.ids[1]}},
          {ChatRole::kAssistant, "That."},
          {ChatRole::kUser, "And?"}};
}

TEST(CallTemplate, ReportsItsSyntax) {
  std::set<ToolSyntaxName> seen;
  for (const TemplateCase& one : TemplateCases()) {
    EXPECT_EQ(one.chat.tool_syntax(), one.syntax) << one.name << ": " << one.chat.caveat();
    // These templates need the positions of tools and results, so turns are appended.
    EXPECT_NE(one.chat.renders_whole(/*with_tools=*/true), one.name.starts_with("mistral")) << one.name;
    seen.insert(one.syntax);
  }
  EXPECT_EQ(seen.size(), 18u);
}

TEST(CallTemplate, ToolConversationsMatchJinja) {
  const ByteTokenizer tokenizer;
  for (const TemplateCase& one : TemplateCases()) {
    const std::vector<ChatMessage> messages = CalledConversation(one);
    const Result<Rendering> rendering = one.chat.renders_whole(/*with_tools=*/true)
                                            ? one.chat.RenderWhole(messages, true, one.tools, tokenizer)
                                            : one.chat.Render(messages, TimelineEnd::kNothing, true, one.tools);
    ASSERT_TRUE(rendering.ok()) << one.name << ": " << rendering.status().ToString();
    EXPECT_EQ(rendering->Text(), one.text) << one.name;
  }
}

// One call a message: the next one would begin another turn.
TEST(CallTemplate, HarmonysCallsAreMessages) {
  const auto chat = ChatTemplate::Recognise(ReadGoldenTemplate("harmony_calls.jinja"), {"<|startoftext|>", "<|call|>"});
  ASSERT_TRUE(chat.ok()) << chat.status().ToString();
  EXPECT_EQ(chat->tool_syntax(), ToolSyntaxName::kHarmony) << chat->caveat();
  TemplateCase one = std::move(TemplateCases().front());
  ChatMessage call = {ChatRole::kAssistant, "I look.", -1, {"call_1"}};
  AppendToolCall("look", one.arguments[0], &call.content, &call.calls_at);
  const std::vector<ChatMessage> messages = {
      {ChatRole::kUser, "Which?"}, call, {ChatRole::kTool, "Found", -1, {"call_1"}}};
  const Result<Rendering> rendering = chat->RenderWhole(messages, true, one.tools, ByteTokenizer());
  ASSERT_TRUE(rendering.ok()) << rendering.status().ToString();
  EXPECT_THAT(rendering->Text(), HasSubstr("namespace functions {\n\ntype look = "));
  EXPECT_THAT(rendering->Text(), HasSubstr("<|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
                                           "<|start|>assistant to=functions.look<|channel|>commentary json<|message|>" +
                                           one.arguments[0] + "<|call|><|start|>functions.look to=assistant"));
}

/// A template that renders tools after `markup` and drops calls.
ChatTemplate DroppingTemplate(const std::string& markup) {
  const std::string source =
      "{%- if tools %}{{- '<|im_start|>system\n" + markup +
      "[' }}{%- for tool in tools %}{{- tool | tojson }}{%- endfor %}{{- ']<|im_end|>\n' }}{%- endif %}"
      "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
      "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}";
  return std::move(ChatTemplate::Recognise(source, {"", "<|im_end|>"}).value());
}

TEST(CallTemplate, DroppedCallsAreWrittenInTheModelsSyntax) {
  const TemplateCase one = std::move(TemplateCases().front());
  const std::tuple<const char*, ToolSyntaxName, const char*> cases[] = {
      {"<|tool_list_start|>", ToolSyntaxName::kLfm2,
       "I look.<|tool_call_start|>[look(what=\"z\", n=None)]<|tool_call_end|>"},
      {"Answer with <|tool_call|>: ", ToolSyntaxName::kGranite,
       "I look.<|tool_call|>[{\"name\": \"look\", \"arguments\": {\"what\": \"z\", \"n\": null}}]"},
      {"<|tool|><|/tool|>", ToolSyntaxName::kPhi4,
       "I look.<|tool_call|>[{\"name\": \"look\", \"arguments\": {\"what\": \"z\", \"n\": null}}]<|/tool_call|>"},
  };
  for (const auto& [markup, syntax, text] : cases) {
    const ChatTemplate chat = DroppingTemplate(markup);
    EXPECT_EQ(chat.tool_syntax(), syntax) << chat.caveat();
    ChatMessage call = {ChatRole::kAssistant, "I look.", -1, {"call_1"}};
    AppendToolCall("look", R"({"what": "z", "n": null})", &call.content, &call.calls_at);
    const std::vector<ChatMessage> messages = {
        {ChatRole::kUser, "Which?"}, call, {ChatRole::kTool, "Found", -1, {"call_1"}}};
    const Result<Rendering> rendering = chat.RenderWhole(messages, true, one.tools, ByteTokenizer());
    ASSERT_TRUE(rendering.ok()) << rendering.status().ToString();
    EXPECT_THAT(rendering->Text(), HasSubstr("assistant\n" + std::string(text) + "<|im_end|>")) << markup;
  }
  EXPECT_EQ(DroppingTemplate("Tools: ").tool_syntax(), ToolSyntaxName::kHermes);
}

// Calls -> history -> template -> calls.
TEST(CallTemplate, HistoryCallsRoundTrip) {
  for (const TemplateCase& one : TemplateCases()) {
    const size_t begin = one.text.find("I look.");
    const ToolSyntax& syntax = SyntaxOf(one.syntax);
    ToolCallReader reader(syntax.alone ? CallPlace::kStart : CallPlace::kAny, one.syntax,
                          std::make_shared<ParameterTypes>(one.tools));
    std::string shown, message;
    std::vector<std::string> arguments;
    const size_t skipped = syntax.alone ? std::string("I look.").size() : 0;
    for (const CallPart& part : reader.Push(std::string_view(one.text).substr(begin + skipped), &shown)) {
      const std::string bytes = shown.substr(part.begin, part.end - part.begin);
      if (part.kind == CallPart::Kind::kText) message += bytes;
      if (part.kind == CallPart::Kind::kCall) arguments.emplace_back();
      if (part.kind == CallPart::Kind::kArguments) arguments.back() += bytes;
    }
    EXPECT_EQ(arguments, one.arguments) << one.name;
    EXPECT_EQ(message.substr(0, 7), syntax.alone ? "" : "I look.") << one.name;
  }
}

TEST(CallTemplate, TurnsOnlyAppendWithoutTools) {
  const ByteTokenizer tokenizer;
  for (const TemplateCase& one : TemplateCases()) {
    if (one.name != "qwen3_coder" && one.name != "granite") continue;
    EXPECT_FALSE(one.chat.renders_whole()) << one.chat.caveat();
    EXPECT_THAT(one.chat.caveat(), HasSubstr("with tools each turn renders"));
    const Codec codec{tokenizer, one.chat, 1024};
    Timeline timeline;
    Item item;
    item.id = "msg_1";
    item.text = "Which?";
    timeline.AddItem(item);
    ASSERT_TRUE(timeline.Render(codec, true, 8000).ok());
    const std::string plain = tokenizer.Decode(timeline.tokens().From(0));
    EXPECT_THAT(plain, ::testing::Not(HasSubstr("look")));
    // Adding and removing tools changes all ids.
    ASSERT_TRUE(timeline.SetHead({std::nullopt, one.tools}, codec, 8000).ok());
    ASSERT_TRUE(timeline.Render(codec, true, 8000).ok());
    EXPECT_THAT(tokenizer.Decode(timeline.tokens().From(0)), HasSubstr("look"));
    ASSERT_TRUE(timeline.SetHead({}, codec, 8000).ok());
    ASSERT_TRUE(timeline.Render(codec, true, 8000).ok());
    EXPECT_EQ(tokenizer.Decode(timeline.tokens().From(0)), plain);
  }
}

// The next turn matches the sampled ids, however the model tokenized its answer.
TEST(CallTemplate, KeepsSampledIds) {
  const auto tokenizer =
      std::move(MakeTokenizer(ReadHuggingFaceTokenizer(GoldenFolder("tokenizer/qwen2")).value()).value());
  for (const TemplateCase& one : TemplateCases()) {
    if (one.name != "qwen3_coder" && one.name != "granite") continue;
    const Codec codec{*tokenizer, one.chat, 1024};
    Timeline timeline;
    const auto ask = [&](const std::string& text) {
      Item question;
      question.id = "msg_" + text;
      question.text = text;
      timeline.AddItem(question);
      ASSERT_TRUE(timeline.Render(codec, true, 8000).ok());
    };
    ASSERT_TRUE(timeline.SetHead({std::nullopt, one.tools}, codec, 8000).ok());
    ask("Which?");
    Item answer;
    answer.id = "msg_a";
    answer.text = "hello there";
    std::vector<TokenId> output;
    for (const char c : std::string(answer.text)) {
      const TextPiece piece{std::string(1, c), false};
      const std::vector<TokenId> ids = tokenizer->EncodeAll({&piece, 1});
      output.insert(output.end(), ids.begin(), ids.end());
    }
    const TextPiece whole{answer.text, false};
    ASSERT_LT(tokenizer->EncodeAll({&whole, 1}).size(), output.size());
    timeline.CloseAnswer(answer, output, codec);
    for (const char* text : {"And?", "Then?"}) {
      const SharedList<TokenId> before = timeline.tokens();
      ask(text);
      EXPECT_EQ(SharedList<TokenId>::CommonPrefix(before, timeline.tokens()), before.size()) << one.name << text;
      EXPECT_TRUE(timeline.items()[1].sampled);
      // The open answer is empty.
      Item nothing;
      nothing.id = "msg_n";
      timeline.CloseAnswer(nothing, {}, codec);
    }
  }
}

TEST(CallTemplate, KimisResultsNameTheCallByItsNumber) {
  for (const TemplateCase& one : TemplateCases()) {
    if (one.name != "kimi") continue;
    const ByteTokenizer tokenizer;
    const Codec codec{tokenizer, one.chat, 1024};
    Timeline timeline;
    ASSERT_TRUE(timeline.SetHead({std::nullopt, one.tools}, codec, 8000).ok());
    Item call;
    call.id = "msg_0123456789";
    call.role = ChatRole::kAssistant;
    call.call_ids = "toolu_x\n";
    std::string text;
    for (int i = 0; i < 2; ++i) AppendToolCall("look", "{}", &text, &call.calls_at);
    call.text = text;
    Item result;
    result.role = ChatRole::kTool;
    for (int turn = 0; turn < 2; ++turn) {
      timeline.AddItem(call);
      for (const std::string& id : {std::string("toolu_x"), ToolCallId("call_", call.id, 1)}) {
        result.call_ids = id;
        timeline.AddItem(result);
      }
    }
    ASSERT_TRUE(timeline.Render(codec, true, 8000).ok());
    const std::string all = tokenizer.Decode(timeline.tokens().From(0));
    for (const char* id : {"functions.look:0", "functions.look:1", "functions.look:2", "functions.look:3"}) {
      EXPECT_THAT(all, HasSubstr("<|tool_call_begin|>" + std::string(id) + "<|tool_call_argument_begin|>{}")) << all;
      EXPECT_THAT(all, HasSubstr("## Return of " + std::string(id) + "\n")) << all;
    }
  }
}

}  // namespace
}  // namespace ringside
