// Tools other than plain functions: custom ones, namespaces, and those run by other servers.
#include "engine/grammar/grammar.h"
#include "tests/ws/openai/responses_fixture.h"
#include "ws/content/tool_fields.h"
#include "ws/content/tool_names.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ToolNamesTest, ModelNameContainsTheNamespace) {
  for (const ClientTool& tool : {ClientTool{.name = "read"}, ClientTool{.space = "mcp__files", .name = "read"},
                                 ClientTool{.name = "apply_patch", .custom = true}}) {
    const std::string name = ModelToolName(tool);
    const ClientTool back = ClientToolOf(name);
    EXPECT_EQ(back.space, tool.space);
    EXPECT_EQ(back.name, tool.name);
    EXPECT_EQ(back.custom, tool.custom);
  }
}

TEST(ToolNamesTest, InputIsUnchanged) {
  for (const std::string text : {"", "a\n\"b\" \\ \t", "caf\xC3\xA9 \xF0\x9F\x99\x82"}) {
    EXPECT_EQ(CustomInput(CustomArguments(text)), text);
  }
  EXPECT_EQ(CustomInput(R"({"input": "ab\n)"), "ab\n");
  EXPECT_EQ(CustomInput(R"({"input": "ab\)"), "ab");
  EXPECT_EQ(CustomInput(R"({"input": "ab\ud83d\ud)"), "ab");
  EXPECT_EQ(CustomInput("{\"input\": \"caf\xC3"), "caf");
  EXPECT_EQ(CustomInput("{\"inp"), "");
  EXPECT_EQ(CustomInput(""), "");
}

struct ReadToolSet {
  ToolSet tools;
  std::vector<std::string> ignored;
};

Result<ReadToolSet> ReadAny(const Json& tools, ToolShape shape = ToolShape::kFlat, bool strict = false) {
  ReadToolSet out;
  IgnoredFields ignored(strict);
  RETURN_IF_ERROR(ReadTools(ParseJson(tools.dump()).value(), "tools", shape, false, &ignored, &out.tools));
  out.ignored = ignored.names();
  return out;
}

const Json kRead = {{"type", "function"}, {"name", "read"}};
const Json kFiles = {{"type", "namespace"}, {"name", "files"}, {"description", "d"}, {"tools", {kRead, kRead}}};

TEST(ClientTools, SkipsAndReportsHostedTools) {
  const Json hosted = Json::array({{{"type", "web_search"}, {"external_web_access", false}},
                                   kRead,
                                   {{"type", "mcp"}, {"server_label", "x"}},
                                   {{"type", "web_search"}}});
  const ReadToolSet read = ReadAny(hosted).value();
  EXPECT_THAT(read.tools.names, ElementsAre("read"));
  EXPECT_THAT(read.tools.places, ElementsAre("tools[1]"));
  EXPECT_THAT(read.ignored, ElementsAre("tools[0].web_search", "tools[2].mcp"));
  EXPECT_EQ(ReadAny(hosted, ToolShape::kFlat, true).status().param(), "tools[0].type");
  EXPECT_THAT(ReadAny(Json::array({{{"type", "web_search"}}}))->tools.names, ElementsAre());
  EXPECT_EQ(ReadAny(Json::array({{{"type", 5}}})).status().param(), "tools[0].type");
}

TEST(ClientTools, NamespaceExpandsToItsFunctions) {
  Json files = kFiles, others = kFiles;
  files["tools"] = {kRead, {{"type", "web_search"}}, {{"type", "function"}, {"name", "write"}, {"x", 1}}};
  others["name"] = "mcp__docs";
  others["tools"] = {kRead};
  const ReadToolSet read = ReadAny(Json::array({kRead, files, others})).value();
  EXPECT_THAT(read.tools.names, ElementsAre("read", "files.read", "files.write", "mcp__docs.read"));
  EXPECT_THAT(read.tools.places,
              ElementsAre("tools[0]", "tools[1].tools[0]", "tools[1].tools[2]", "tools[2].tools[0]"));
  EXPECT_THAT(read.tools.lines, HasSubstr(R"({"type": "function", "function": {"name": "files.read"}})"));
  EXPECT_THAT(read.ignored, ElementsAre("tools[1].tools[1].web_search", "tools[1].tools[2].x"));
  EXPECT_EQ(ReadAny(Json::array({kFiles})).status().param(), "tools[0].tools[1].name");  // a duplicate
  const auto param_of = [&](Json fields) {
    Json space = kFiles;
    space.update(fields);
    return ReadAny(Json::array({space})).status().param();
  };
  EXPECT_EQ(param_of({{"name", "a.b"}}), "tools[0].name");
  EXPECT_EQ(param_of({{"name", "custom"}}), "tools[0].name");
  EXPECT_EQ(param_of({{"tools", 5}}), "tools[0].tools");
  EXPECT_EQ(param_of({{"tools", {5}}}), "tools[0].tools[0]");
  Json many = kFiles;
  many["tools"] = Json::array();
  for (int i = 0; i < 129; ++i) many["tools"].push_back({{"type", "function"}, {"name", "f" + std::to_string(i)}});
  EXPECT_EQ(ReadAny(Json::array({many})).status().reason(), "array_above_max_length");
}

TEST(ClientTools, CustomToolIsAFunctionOfOneString) {
  const auto custom = [](Json format) {
    return Json{{"type", "custom"}, {"name", "run"}, {"description", "d"}, {"format", std::move(format)}};
  };
  const ReadToolSet plain = ReadAny(Json::array({custom({{"type", "text"}})})).value();
  EXPECT_THAT(plain.tools.names, ElementsAre("custom.run"));
  EXPECT_TRUE(plain.tools.strict[0]);
  const std::string line =
      R"({"type": "function", "function": {"name": "custom.run", "description": "d", "parameters": {"type": "object", )"
      R"("properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": false}}})";
  EXPECT_EQ(plain.tools.lines, line);
  const ReadToolSet lark =
      ReadAny(Json::array({custom({{"type", "grammar"}, {"syntax", "lark"}, {"definition", "start: \"a\" | \"b\""}})}))
          .value();
  EXPECT_THAT(lark.tools.lines, HasSubstr(R"("pattern": "^(?:(?:(?:a)|(?:b)))$")"));
  EXPECT_TRUE(lark.ignored.empty());
  for (const Json& format : {Json{{"type", "grammar"}, {"syntax", "lark"}, {"definition", "start: start"}},
                             Json{{"type", "grammar"}, {"syntax", "regex"}, {"definition", "(?=a)b"}},
                             Json{{"type", "grammar"}, {"syntax", "bnf"}, {"definition", "x"}}}) {
    const ReadToolSet read = ReadAny(Json::array({custom(format)})).value();
    EXPECT_EQ(read.tools.lines, line) << format;
    EXPECT_THAT(read.ignored, ElementsAre("tools[0].format")) << format;
  }
  const Json nested = {{"type", "custom"}, {"custom", {{"name", "run"}, {"description", "d"}}}};
  EXPECT_EQ(ReadAny(Json::array({nested}), ToolShape::kNested)->tools.lines, line);
  EXPECT_EQ(ReadAny(Json::array({{{"type", "custom"}}}), ToolShape::kNested).status().param(), "tools[0].custom");
}

TEST(ClientTools, ChoiceIsByName) {
  const auto read = [](const Json& choice, ToolShape shape = ToolShape::kFlat) {
    ToolChoice out;
    EXPECT_TRUE(ReadToolChoice(ParseJson(choice.dump()).value(), "tool_choice", shape, &out).ok()) << choice;
    return out;
  };
  const Json custom = {{"type", "custom"}, {"name", "run"}};
  const Json space = {{"type", "function"}, {"name", "read"}, {"namespace", "files"}};
  EXPECT_THAT(read(custom).names, ElementsAre("custom.run"));
  EXPECT_THAT(read(space).names, ElementsAre("files.read"));
  EXPECT_THAT(read({{"type", "custom"}, {"custom", {{"name", "run"}}}}, ToolShape::kNested).names,
              ElementsAre("custom.run"));
  const Json both = {{"type", "allowed_tools"}, {"mode", "auto"}, {"tools", {custom, space}}};
  for (const Json& choice : {custom, space, both}) EXPECT_EQ(Json::parse(ToolChoiceJson(read(choice))), choice);
}

class ClientToolsTest : public ::testing::Test, protected TableFixture {
 protected:
  ClientToolsTest() : TableFixture(Options()) {}
  static SessionTableOptions Options() {
    SessionTableOptions options = TableFixture::Options();
    options.session_len = 9000;
    options.memory_len = 4000;
    options.pinned_max = 1024;
    return options;
  }
  static Json Ask(Json fields = Json::object()) {
    Json files = kFiles;
    files["tools"] = {kRead};
    const Json run = {{"type", "custom"}, {"name", "run"}, {"description", "d"}};
    Json event = {{"type", "response.create"},
                  {"input", "Hi"},
                  {"tools", {files, run, {{"type", "web_search"}, {"external_web_access", false}}}}};
    event.update(fields);
    return event;
  }
  static std::string CallOf(const std::string& name, const std::string& arguments) {
    return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>";
  }
  std::string Prompt() { return tokenizer.Decode(engine.last().tokens); }
  TestSocket client{table};
};

TEST_F(ClientToolsTest, NamespaceCallHasBothNames) {
  client.Send(Ask());
  ASSERT_NE(engine.last().grammar, nullptr);
  EXPECT_TRUE(GrammarMatcher(engine.last().grammar).Append(CallOf("files.read", "{}")).ok());
  engine.Answer(0, CallOf("files.read", "{}"));
  const std::vector<Json> frames = client.Frames();
  const Json response = frames.back()["response"], call = response["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "read");
  EXPECT_EQ(call["namespace"], "files");
  EXPECT_EQ(response["ringside"]["ignored"], Json::array({"tools[2].web_search"}));
  EXPECT_EQ(response["tools"].size(), 2u);
  EXPECT_EQ(response["tools"][0]["type"], "namespace");
  // The received call is returned with its result: the model reads its own call.
  const Json result = {{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "12"}};
  client.Send(Ask({{"input", {{{"role", "user"}, {"content", "Hi"}}, call, result}}}));
  EXPECT_THAT(Prompt(), HasSubstr(CallOf("files.read", "{}") + "<|im_end|>"));
  EXPECT_EQ(engine.requests()[0].timeline, engine.requests()[1].timeline);
}

TEST_F(ClientToolsTest, CustomToolCallHasAnInput) {
  client.Send(Ask());
  engine.Start(0);
  const std::string call = CallOf("custom.run", R"({"input": "a\n\"b\""})");
  engine.SayAtOnce(0, call.substr(0, 65));
  engine.SayAtOnce(0, call.substr(65));
  engine.End(0);
  const std::vector<Json> frames = client.Frames();
  EXPECT_THAT(Types(frames),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.custom_tool_call_input.delta", "response.custom_tool_call_input.delta",
                          "response.custom_tool_call_input.done", "response.output_item.done", "response.completed"));
  for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(frames[i]["sequence_number"], i);
  EXPECT_EQ(frames[5]["input"], "a\n\"b\"");
  const Json item = frames.back()["response"]["output"][0];
  EXPECT_EQ(item["type"], "custom_tool_call");
  EXPECT_EQ(item["name"], "run");
  EXPECT_EQ(item["input"], "a\n\"b\"");
  EXPECT_FALSE(item.contains("arguments"));
  const Json result = {{"type", "custom_tool_call_output"}, {"call_id", item["call_id"]}, {"output", "12"}};
  const Json again = Ask({{"input", {{{"role", "user"}, {"content", "Hi"}}, item, result}}});
  client.Send(again);
  EXPECT_EQ(engine.requests()[0].timeline, engine.requests()[1].timeline);
  TestSocket other(table, "other");  // it has no timeline with this prefix
  other.Send(again);
  EXPECT_THAT(Prompt(), HasSubstr(call + "<|im_end|>\n<|im_start|>user\n<tool_response>\n12\n</tool_response>"));
}

TEST_F(ClientToolsTest, LarkGrammarConstrainsTheInput) {
  const Json format = {{"type", "grammar"}, {"syntax", "lark"}, {"definition", "start: \"ab\" LF\n%import common.LF"}};
  client.Send(
      Ask({{"tools", {{{"type", "custom"}, {"name", "run"}, {"format", format}}}}, {"tool_choice", "required"}}));
  ASSERT_NE(engine.last().grammar, nullptr) << client.Frames().back();
  EXPECT_TRUE(GrammarMatcher(engine.last().grammar).Append(CallOf("custom.run", R"({"input": "ab\n"})")).ok());
  EXPECT_FALSE(GrammarMatcher(engine.last().grammar).Append(CallOf("custom.run", R"({"input": "abc"})")).ok());
}

}  // namespace
}  // namespace ringside
