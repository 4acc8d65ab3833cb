// Fields without effect on Responses over both transports: ignored, and reported in the stored response object.
#include "tests/ws/openai/routes_fixture.h"

namespace ringside {
namespace {

using ::testing::Contains;
using ::testing::Pair;

class ResponsesIgnoredTest : public RoutesTest {
 protected:
  static Json Ask() {
    return {{"input", "Hi"},
            {"colour", "red"},
            {"none", nullptr},
            {"client_metadata", {{"a", "b"}}},
            {"reasoning", {{"effort", "high"}, {"summary", "auto"}}},
            {"text", {{"verbosity", "low"}}},
            {"service_tier", "priority"},
            {"include", {"message.mood", "reasoning.encrypted_content"}},
            {"metadata", {{"a", 1}, {"b", "x"}}},
            {"ringside", {{"window", 1}}}};
  }
  static Json Names() {
    return {"colour",  "client_metadata", "text.verbosity",  "service_tier",
            "include", "metadata",        "ringside.window", "reasoning.effort"};
  }
};

TEST_F(ResponsesIgnoredTest, TheSocketReportsThemInTheResponseObject) {
  client.Send(Create(Ask()));
  const std::vector<Json> begun = client.Frames();
  ASSERT_FALSE(begun.empty());
  EXPECT_EQ(begun.front()["response"]["ringside"], Json({{"ignored", Names()}})) << begun.front();
  engine.AnswerLast("Yo");
  const Json done = client.Frames().back()["response"];
  EXPECT_EQ(done["ringside"]["ignored"], Names());
  EXPECT_EQ(done["ringside"]["source"], "new");
  EXPECT_EQ(done["metadata"], Json({{"b", "x"}}));
}

TEST_F(ResponsesIgnoredTest, HttpAlsoReportsThemInAHeader) {
  const HttpResponse waiting = Call("POST", "/v1/responses", Ask());
  std::string all;
  for (const Json& name : Names()) all += (all.empty() ? "" : ", ") + name.get<std::string>();
  EXPECT_THAT(waiting.headers, Contains(Pair("X-Ringside-Ignored", all)));
  engine.AnswerLast("Yo");
  const Json done = Ok(waiting);
  EXPECT_EQ(done["ringside"]["ignored"], Names());
  EXPECT_EQ(Ok(Call("GET", "/v1/responses/" + done["id"].get<std::string>()))["ringside"]["ignored"], Names());
}

TEST_F(ResponsesIgnoredTest, DropsItemsWithoutContent) {
  const Json input = {Message("user", "Hi"),
                      {{"type", "reasoning"}, {"id", "rs_1"}, {"summary", Json::array()}, {"encrypted_content", "x"}},
                      {{"type", "web_search_call"}, {"id", "ws_1"}, {"status", "completed"}},
                      {{"role", "assistant"}, {"content", {{{"type", "refusal"}, {"refusal", "No."}}}}},
                      Message("user", "More")};
  client.Send(Create({{"input", input}}));
  EXPECT_NE(tokenizer.Decode(engine.last().tokens).find("Hi<|im_end|>\n<|im_start|>assistant\nNo.<|im_end|>"),
            std::string::npos);
  engine.AnswerLast("Yo");
  EXPECT_EQ(client.Frames().back()["response"]["ringside"]["ignored"],
            Json::array({"input[1].reasoning", "input[2].web_search_call"}));
}

TEST_F(ResponsesIgnoredTest, LimitsTheReport) {
  const std::string large(1 << 20, 'x');
  client.Send(Create({{large, 1}, {"include", {large}}, {"metadata", {{large, "x"}}}}));
  engine.AnswerLast("Yo");
  for (const Json& frame : client.Frames()) EXPECT_LT(frame.dump().size(), 4'000U);
}

TEST_F(ResponsesIgnoredTest, VerbsReportThem) {
  const std::string conversation = NewConversation();
  client.Send({{"type", "ringside:session.rewind"}, {"session", conversation}, {"to", 0}, {"colour", "red"}});
  EXPECT_EQ(client.Frame()["ringside"]["ignored"], Json::array({"colour"}));
  client.Send({{"type", "ringside:session.fork"}, {"session", conversation}, {"colour", "red"}, {"x", nullptr}});
  const Json forked = client.Frame();
  EXPECT_EQ(forked["type"], "ringside:session.forked");
  EXPECT_EQ(forked["ringside"]["ignored"], Json::array({"colour"}));
}

TEST_F(ResponsesIgnoredTest, AnswerWithoutALimitGetsTheServersLimit) {
  client.Send(Create({{"max_output_tokens", -1}}));
  engine.AnswerLast("Yo");
  const Json done = client.Frames().back()["response"];
  EXPECT_EQ(done["max_output_tokens"], TableFixture::Options().session_len);
  EXPECT_FALSE(done["ringside"].contains("ignored"));
}

class StrictResponses : public ::testing::Test, protected TableFixture {
 protected:
  StrictResponses() : TableFixture(Options()) {}
  static SessionTableOptions Options() {
    SessionTableOptions options = TableFixture::Options();
    options.strict_requests = true;
    options.max_output_tokens_limit = 50;
    return options;
  }
  TestSocket client{table};
};

TEST_F(StrictResponses, AbbreviateUnknownNames) {
  const std::string large(1 << 20, 'x');
  for (const Json& fields : {Json{{large, 1}}, Json{{"include", {large}}}, Json{{"metadata", {{large, "x"}}}}}) {
    Json event = {{"type", "response.create"}, {"input", "Hi"}};
    event.update(fields);
    client.Send(event);
    EXPECT_LT(client.Frame().dump().size(), 2'000U);
  }
}

TEST_F(StrictResponses, RefuseUnknownFieldsByName) {
  const std::tuple<Json, const char*, const char*> cases[] = {
      {{{"tempreature", 1}}, "unknown_parameter", "tempreature"},
      {{{"input", {{{"role", "user"}, {"content", "x"}, {"x", 1}}}}}, "unknown_parameter", "input[0].x"},
      {{{"ringside", {{"window", 1}}}}, "unknown_parameter", "ringside.window"},
      {{{"reasoning", {{"effort", "high"}}}}, "unsupported_value", "reasoning.effort"},
      {{{"include", {"message.mood"}}}, "unsupported_value", "include"},
      {{{"service_tier", "priority"}}, "unsupported_value", "service_tier"},
      {{{"metadata", {{"a", 1}}}}, "invalid_type", "metadata.a"},
      {{{"metadata", {{"a", std::string(513, 'x')}}}}, "string_above_max_length", "metadata.a"},
      {{{"max_output_tokens", 51}}, "invalid_value", "max_output_tokens"},
      {{{"input", {{{"type", "reasoning"}}}}}, "unsupported_value", "input[0].reasoning"},
  };
  for (const auto& [fields, code, param] : cases) {
    Json event = {{"type", "response.create"}, {"input", "Hi"}};
    event.update(fields);
    client.Send(event);
    const Json error = client.Error();
    EXPECT_EQ(error["code"], code) << fields << error;
    EXPECT_EQ(error["param"], param) << fields << error;
  }
  EXPECT_EQ(engine.count(), 0u);
}

}  // namespace
}  // namespace ringside
