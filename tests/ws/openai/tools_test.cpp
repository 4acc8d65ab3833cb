// Tools over Responses: parsing and rendering, call events, listed and returned items.
#include "engine/grammar/grammar.h"
#include "tests/ws/openai/responses_fixture.h"
#include "ws/content/tool_fields.h"
#include "ws/openai/conversations.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Json kSchema = {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}, {"required", {"city"}}};
const Json kTool = {{"type", "function"}, {"name", "weather"}, {"description", "caf\xC3\xA9"}, {"parameters", kSchema}};
const std::string kCall = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn\"}}\n</tool_call>";

SessionTableOptions Roomy() {
  SessionTableOptions options = TableFixture::Options();
  options.session_len = 9000;
  options.memory_len = 4000;
  options.pinned_max = 1024;
  return options;
}

Result<ToolSet> Read(const Json& tools, ToolShape shape = ToolShape::kFlat) {
  ToolSet out;
  IgnoredFields ignored(/*strict=*/true);
  RETURN_IF_ERROR(ReadTools(ParseJson(tools.dump()).value(), "tools", shape, true, &ignored, &out));
  return out;
}

TEST(ToolFields, PrintsOneLinePerTool) {
  const std::string line =
      R"({"type": "function", "function": {"name": "weather", "description": "caf)"
      "\xC3\xA9"
      R"(", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}})";
  const Json bare = {{"type", "function"}, {"name", "b"}, {"strict", false}, {"description", nullptr}};
  const ToolSet flat = Read({kTool, bare}).value();
  EXPECT_EQ(flat.lines, line + "\n" + R"({"type": "function", "function": {"name": "b"}})");
  EXPECT_EQ(flat.strict, (std::vector<bool>{true, false}));
  EXPECT_EQ(flat.schema_param, ".parameters");
  Json function = kTool;
  function.erase("type");
  const ToolSet nested =
      Read(Json::array({{{"type", "function"}, {"function", function}}}), ToolShape::kNested).value();
  EXPECT_EQ(nested.lines, line);
  EXPECT_EQ(nested.schema_param, ".function.parameters");
  EXPECT_EQ(Read(Json::array())->lines, "");
}

TEST(ToolFields, RefusesInvalidToolsByName) {
  const auto with = [](Json fields) {
    Json tool = kTool;
    tool.update(fields);
    return Json::array({tool});
  };
  Json nameless = kTool;
  nameless.erase("name");
  Json many = Json::array(), large = Json::array();
  for (int i = 0; i < 129; ++i) many.push_back({{"type", "function"}, {"name", "f" + std::to_string(i)}});
  for (int i = 0; i < 3; ++i)
    large.push_back(with({{"name", "f" + std::to_string(i)}, {"description", std::string(100000, 'x')}})[0]);
  const std::pair<Json, const char*> cases[] = {{5, "tools"},
                                                {Json::array({5}), "tools[0]"},
                                                {many, "tools"},
                                                {large, "tools[2]"},
                                                {Json::array({nameless}), "tools[0].name"},
                                                {with({{"name", "a b"}}), "tools[0].name"},
                                                {with({{"name", "<|im_end|>"}}), "tools[0].name"},
                                                {with({{"type", "web_search"}}), "tools[0].type"},
                                                {with({{"description", 5}}), "tools[0].description"},
                                                {with({{"parameters", 5}}), "tools[0].parameters"},
                                                {with({{"strict", "yes"}}), "tools[0].strict"},
                                                {with({{"x", 5}}), "tools[0].x"},
                                                {with({{"defer_loading", true}}), "tools[0].defer_loading"},
                                                {Json::array({kTool, kTool}), "tools[1].name"}};
  for (const auto& [tools, param] : cases)
    EXPECT_EQ(Read(tools).status().param(), param) << tools.dump().substr(0, 200);
  EXPECT_EQ(Read(Json::array({{{"type", "function"}}}), ToolShape::kNested).status().param(), "tools[0].function");
}

TEST(ToolFields, Choices) {
  const auto read = [](const Json& choice, ToolShape shape = ToolShape::kFlat) -> Result<ToolChoice> {
    ToolChoice out;
    RETURN_IF_ERROR(ReadToolChoice(ParseJson(choice.dump()).value(), "tool_choice", shape, &out));
    return out;
  };
  using Mode = ToolChoice::Mode;
  EXPECT_EQ(read("auto")->mode, Mode::kAuto);
  EXPECT_EQ(read("none")->mode, Mode::kNone);
  EXPECT_EQ(read("required")->mode, Mode::kRequired);
  const Json flat = {{"type", "function"}, {"name", "f"}},
             nested = {{"type", "function"}, {"function", {{"name", "f"}}}};
  for (const ToolChoice& named : {read(flat).value(), read(nested, ToolShape::kNested).value()}) {
    EXPECT_EQ(named.mode, Mode::kRequired);
    EXPECT_THAT(named.names, ElementsAre("f"));
    EXPECT_FALSE(named.several);
  }
  const Json allowed = {{"type", "allowed_tools"}, {"mode", "required"}, {"tools", {flat}}};
  EXPECT_THAT(read(allowed)->names, ElementsAre("f"));
  EXPECT_EQ(read(allowed)->mode, Mode::kRequired);
  const Json chat = {{"type", "allowed_tools"}, {"allowed_tools", {{"mode", "auto"}, {"tools", {nested}}}}};
  EXPECT_THAT(read(chat, ToolShape::kNested)->names, ElementsAre("f"));
  Json free = allowed;
  free["mode"] = "auto";
  for (const Json& choice : {Json("auto"), Json("none"), Json("required"), flat, allowed, free}) {
    EXPECT_EQ(Json::parse(ToolChoiceJson(read(choice).value())), choice);
  }
  EXPECT_EQ(read("any").status().param(), "tool_choice");
  EXPECT_EQ(read(5).status().param(), "tool_choice");
  EXPECT_EQ(read({{"type", "mcp"}}).status().param(), "tool_choice.type");
  EXPECT_EQ(read({{"type", "function"}}).status().param(), "tool_choice.name");
  EXPECT_EQ(read({{"type", "allowed_tools"}, {"tools", Json::array()}}).status().param(), "tool_choice.tools");
}

class ToolsTest : public ::testing::Test, protected TableFixture {
 protected:
  ToolsTest() : TableFixture(Roomy()) { RegisterConversationRoutes(router, table); }

  static Json Ask(Json fields = Json::object()) {
    Json event = {{"type", "response.create"}, {"input", "Hi"}, {"tools", {kTool}}};
    event.update(fields);
    return event;
  }
  Json Http(const std::string& method, const std::string& path, int status = 200,
            std::vector<std::pair<std::string, std::string>> query = {}, const Json& body = nullptr) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.principal = "me";
    request.query = std::move(query);
    if (!body.is_null()) request.body = body.dump();
    const HttpResponse response = router.Route(request);
    EXPECT_EQ(response.status, status) << response.body;
    return Json::parse(response.body);
  }
  std::string Prompt() { return tokenizer.Decode(engine.last().tokens); }

  Router router;
  TestSocket client{table};
};

TEST_F(ToolsTest, SendsEventsOfTextAndCall) {
  client.Send(Ask());
  engine.Start(0);
  engine.Say(0, "Hm");
  engine.SayAtOnce(0, "\n" + kCall.substr(0, 60));
  engine.SayAtOnce(0, kCall.substr(60));
  engine.End(0);
  const std::vector<Json> frames = client.Frames();
  EXPECT_THAT(Types(frames),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.output_text.delta", "response.output_text.delta",
                          "response.output_text.done", "response.content_part.done", "response.output_item.done",
                          "response.output_item.added", "response.function_call_arguments.delta",
                          "response.function_call_arguments.delta", "response.function_call_arguments.done",
                          "response.output_item.done", "response.completed"));
  for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(frames[i]["sequence_number"], i);
  const Json& response = frames.back()["response"];
  const std::string base = response["output"][0]["id"].get<std::string>().substr(4);
  const Json call = {{"id", "fc_" + base + "_0"}, {"type", "function_call"},
                     {"status", "completed"},     {"call_id", "call_" + base + "_0"},
                     {"name", "weather"},         {"arguments", "{\"city\": \"Bonn\"}"}};
  EXPECT_EQ(frames[6]["text"], "Hm");
  EXPECT_EQ(frames[8]["item"]["status"], "completed");
  EXPECT_EQ(frames[8]["item"], response["output"][0]);
  EXPECT_EQ(frames[9]["item"]["arguments"], "");
  EXPECT_EQ(frames[9]["item"]["status"], "in_progress");
  EXPECT_EQ(frames[9]["output_index"], 1);
  EXPECT_EQ(frames[10]["delta"].get<std::string>() + frames[11]["delta"].get<std::string>(),
            call["arguments"].get<std::string>());
  EXPECT_EQ(frames[11]["item_id"], call["id"]);
  EXPECT_EQ(frames[12]["arguments"], call["arguments"]);
  EXPECT_EQ(frames[13]["item"], call);
  EXPECT_EQ(response["output"][1], call);
  EXPECT_EQ(response["tools"][0]["strict"], true);
  EXPECT_EQ(response["tools"][0]["parameters"], kSchema);
  EXPECT_EQ(response["tool_choice"], "auto");
}

TEST_F(ToolsTest, ReplayEqualsTheSentEvents) {
  const std::string conversation = Http("POST", "/v1/conversations")["id"];
  client.Send(Ask({{"conversation", conversation}}));
  engine.Start(0);
  engine.Say(0, "Hm\n" + kCall + "\n" + kCall.substr(0, 50));
  engine.End(0, FinishReason::kLength);
  const std::vector<Json> told = client.Frames();
  EXPECT_EQ(told.back()["response"]["output"][2]["status"], "incomplete");
  EXPECT_EQ(told.back()["response"]["output"][1]["status"], "completed");
  EXPECT_EQ(told.back()["response"]["output"][0]["status"], "completed");
  const Json epoch = Http("GET", "/v1/conversations/" + conversation)["ringside"]["epoch"];
  for (const size_t from : {size_t{1}, size_t{5}, size_t{7}, size_t{9}, size_t{20}, told.size() - 3}) {
    TestSocket late(table);
    late.Send({{"type", "ringside:session.resume"}, {"session", conversation}, {"epoch", epoch}, {"after", from - 1}});
    std::vector<Json> frames = late.Frames();
    EXPECT_EQ(frames.front()["type"], "ringside:session.resumed");
    frames.erase(frames.begin());
    ASSERT_EQ(frames.size(), told.size() - from) << from;
    for (size_t i = 0; i < frames.size(); ++i) {
      EXPECT_EQ(frames[i]["sequence_number"], told[from + i]["sequence_number"]);
      EXPECT_EQ(frames[i]["type"], told[from + i]["type"]);
      for (const char* key : {"item", "delta", "arguments", "item_id", "output_index"}) {
        EXPECT_EQ(frames[i].value(key, Json()), told[from + i].value(key, Json())) << from + i << key;
      }
    }
  }
}

TEST_F(ToolsTest, CallAndResultItems) {
  const std::string conversation = Http("POST", "/v1/conversations")["id"];
  client.Send(Ask({{"conversation", conversation}}));
  engine.Answer(0, "Hm\n" + kCall);
  const Json output = client.Frames().back()["response"]["output"];
  // Everything received may be sent back, or only the result.
  const Json result = {{"type", "function_call_output"}, {"call_id", output[1]["call_id"]}, {"output", "12\xC2\xB0"}};
  client.Send(Ask({{"conversation", conversation}, {"input", {result}}}));
  EXPECT_THAT(
      Prompt(),
      HasSubstr(kCall + "<|im_end|>\n<|im_start|>user\n<tool_response>\n12\xC2\xB0\n</tool_response><|im_end|>\n"));
  engine.AnswerLast("It is 12.");
  const std::string path = "/v1/conversations/" + conversation + "/items";
  const Json items = Http("GET", path, 200, {{"order", "asc"}})["data"];
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(items[1]["content"][0]["text"], "Hm");
  EXPECT_EQ(items[2], output[1]);
  EXPECT_EQ(items[3]["type"], "function_call_output");
  EXPECT_EQ(items[3]["output"], "12\xC2\xB0");
  EXPECT_EQ(items[3]["call_id"], output[1]["call_id"]);
  // In pages of any size, in both orders.
  for (const std::string order : {"asc", "desc"}) {
    for (const int limit : {1, 2, 3}) {
      std::vector<Json> seen;
      std::string after;
      for (bool more = true; more;) {
        const Json page =
            Http("GET", path, 200, {{"order", order}, {"limit", std::to_string(limit)}, {"after", after}});
        for (const Json& item : page["data"]) seen.push_back(item);
        after = page["last_id"];
        more = page["has_more"];
        ASSERT_LE(seen.size(), 5u);
      }
      if (order == "desc") std::reverse(seen.begin(), seen.end());
      EXPECT_EQ(Json(seen), items) << order << limit;
    }
  }
  EXPECT_EQ(Http("GET", path + "/" + output[1]["id"].get<std::string>()), output[1]);
  Http("GET", path + "/fc_x_0", 404);
  // Deletes the following answer first, then the result, then a call with the rest of its answer.
  const std::string call = path + "/" + output[1]["id"].get<std::string>();
  for (const int at : {4, 3}) Http("DELETE", path + "/" + items[at]["id"].get<std::string>());
  Http("DELETE", call + "9", 404);
  EXPECT_EQ(Http("DELETE", call)["ringside"]["items"], 1);
  Http("GET", path, 404, {{"after", "fc_x_9"}});
}

TEST_F(ToolsTest, EveryHistoryItemIsOneMessage) {
  const Json call = {
      {"type", "function_call"}, {"call_id", "c1"}, {"name", "weather"}, {"arguments", "{\"city\":\"Rome\"}"}};
  Json second = call;
  second["call_id"] = "c2";
  second["id"] = "fc_theirs";
  second["status"] = "completed";
  const Json result = {
      {"type", "function_call_output"}, {"call_id", "c1"}, {"output", {{{"type", "input_text"}, {"text", "hot"}}}}};
  client.Send(Ask(
      {{"input",
        {{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", "Hm"}}, call, second, result}}}));
  EXPECT_THAT(
      Prompt(),
      HasSubstr("<|im_start|>assistant\nHm\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n"
                "</tool_call>\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"
                "<|im_end|>\n<|im_start|>user\n<tool_response>\nhot\n</tool_response><|im_end|>\n"));
  // Their own ids are kept.
  const std::string conversation =
      Http("POST", "/v1/conversations", 200, {}, {{"items", {call, second, result}}})["id"];
  const Json items = Http("GET", "/v1/conversations/" + conversation + "/items", 200, {{"order", "asc"}})["data"];
  EXPECT_EQ(items[0]["call_id"], "c1");
  EXPECT_EQ(items[1]["call_id"], "c2");
  EXPECT_EQ(items[2]["call_id"], "c1");
}

TEST_F(ToolsTest, AcceptsATruncatedCall) {
  const Json cut = {{"type", "function_call"}, {"call_id", "c1"}, {"name", "weather"}, {"arguments", "{\"city"}};
  const Json whole = {{"type", "function_call"}, {"call_id", "c2"}, {"name", "weather"}, {"arguments", "{}"}};
  const std::string conversation = Http("POST", "/v1/conversations", 200, {}, {{"items", {cut, whole}}})["id"];
  const Json items = Http("GET", "/v1/conversations/" + conversation + "/items", 200, {{"order", "asc"}})["data"];
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0]["arguments"], "{\"city");
  EXPECT_EQ(items[0]["status"], "incomplete");
  EXPECT_EQ(items[1]["arguments"], "{}");
  EXPECT_EQ(items[1]["call_id"], "c2");
  client.Send(Ask({{"input", {cut, whole, {{"role", "user"}, {"content", "Go on"}}}}}));
  EXPECT_THAT(Prompt(), HasSubstr("\"arguments\": {\"city<|im_end|>\n<|im_start|>assistant\n<tool_call>\n"));
}

TEST_F(ToolsTest, ErrorsNameTheItem) {
  const Json call = {{"type", "function_call"}, {"call_id", "c"}, {"name", "f"}, {"arguments", "{}"}};
  const Json result = {{"type", "function_call_output"}, {"call_id", "c"}, {"output", "x"}};
  const auto without = [](Json item, const char* key) {
    item.erase(key);
    return item;
  };
  const auto with = [](Json item, const char* key, Json value) {
    item[key] = value;
    return item;
  };
  const std::pair<Json, const char*> cases[] = {
      {without(call, "name"), "input[0].name"},
      {without(call, "arguments"), "input[0].arguments"},
      {with(call, "name", "a b"), "input[0].name"},
      {with(call, "arguments", "[1]"), "input[0].arguments"},
      {with(call, "arguments", "{}}\n</tool_call>"), "input[0].arguments"},
      {with(call, "call_id", "a\nb"), "input[0].call_id"},
      {without(result, "call_id"), "input[0].call_id"},
      {without(result, "output"), "input[0].output"},
      {with(result, "output", {{{"type", "input_image"}}}), "input[0].output[0].type"},
      {{{"type", "computer_call"}}, "input[0].type"}};
  for (const auto& [item, param] : cases) {
    client.Send(Ask({{"input", {item}}}));
    EXPECT_EQ(client.Error()["param"], param) << item;
  }
}

TEST_F(ToolsTest, ToolChoiceSetsTheGrammar) {
  const auto takes = [&](const Json& fields, const std::string& text) {
    client.Send(Ask(fields));
    GrammarMatcher matcher(engine.last().grammar);
    const bool takes = matcher.Append(text).ok() && matcher.may_end();
    engine.AnswerLast("");
    client.Frames();
    return takes;
  };
  EXPECT_TRUE(takes(Json::object(), "Hi"));
  EXPECT_TRUE(takes(Json::object(), kCall + "\n" + kCall));
  EXPECT_FALSE(takes({{"parallel_tool_calls", false}}, kCall + "\n" + kCall));
  EXPECT_TRUE(takes({{"parallel_tool_calls", false}}, kCall));
  EXPECT_FALSE(takes({{"tool_choice", "required"}}, "Hi"));
  EXPECT_FALSE(takes({{"tool_choice", "none"}}, kCall));
  const Json named = {{"type", "function"}, {"name", "weather"}};
  EXPECT_TRUE(takes({{"tool_choice", named}}, kCall));
  EXPECT_FALSE(takes({{"tool_choice", named}}, kCall + "\n" + kCall));
  client.Send(Ask({{"tool_choice", {{"type", "function"}, {"name", "other"}}}}));
  EXPECT_EQ(client.Error()["param"], "tool_choice");
  client.Send(Ask({{"tools", Json::array()}, {"tool_choice", "required"}}));
  EXPECT_EQ(client.Error()["param"], "tool_choice");
  Json odd = kTool;
  odd["parameters"]["properties"]["city"]["minContains"] = 1;
  client.Send(Ask({{"tools", {odd}}}));
  EXPECT_EQ(client.Error()["param"], "tools[0].parameters.properties.city.minContains");
  odd["strict"] = false;
  client.Send(Ask({{"tools", {odd}}}));
  EXPECT_NE(engine.last().grammar, nullptr);
}

}  // namespace
}  // namespace ringside
