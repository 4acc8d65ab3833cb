#include "base/refusals/server_overload.h"
#include "tests/ws/openai/responses_fixture.h"

namespace ringside {
namespace {

using ::testing::SizeIs;

class ResponsesErrorsTest : public ResponsesTest {};

struct BadField {
  Json fields;
  const char* code;
  const char* param;
};

TEST_F(ResponsesErrorsTest, ErrorNamesEveryBadField) {
  const Json image = {{{"role", "user"}, {"content", {{{"type", "input_image"}, {"image_url", "x"}}}}}};
  const std::vector<BadField> cases = {
      {{{"temperature", "hot"}}, "invalid_type", "temperature"},
      {{{"temperature", -1}}, "invalid_value", "temperature"},
      {{{"top_p", 0}}, "invalid_value", "top_p"},
      {{{"top_p", 1.5}}, "invalid_value", "top_p"},
      {{{"min_p", -0.1}}, "invalid_value", "min_p"},
      {{{"top_k", -2}}, "invalid_value", "top_k"},
      {{{"top_k", 1.5}}, "invalid_type", "top_k"},
      {{{"seed", "x"}}, "invalid_type", "seed"},
      {{{"seed", 1e300}}, "invalid_value", "seed"},
      {{{"repetition_penalty", 0}}, "invalid_value", "repetition_penalty"},
      {{{"presence_penalty", 3}}, "invalid_value", "presence_penalty"},
      {{{"frequency_penalty", -3}}, "invalid_value", "frequency_penalty"},
      {{{"min_tokens", -1}}, "invalid_value", "min_tokens"},
      {{{"max_output_tokens", 0}}, "invalid_value", "max_output_tokens"},
      {{{"max_output_tokens", -5}}, "invalid_value", "max_output_tokens"},
      {{{"top_logprobs", 21}}, "invalid_value", "top_logprobs"},
      {{{"stop", ""}}, "invalid_value", "stop"},
      {{{"stop", 3}}, "invalid_type", "stop"},
      {{{"stop", Json(std::vector<std::string>(17, "a"))}}, "array_above_max_length", "stop"},
      {{{"stop_token_ids", {-1}}}, "invalid_value", "stop_token_ids"},
      {{{"logit_bias", {{"x", 1}}}}, "invalid_value", "logit_bias"},
      {{{"logit_bias", {{"5", 101}}}}, "invalid_value", "logit_bias"},
      {{{"bad_words", {""}}}, "invalid_value", "bad_words"},
      {{{"bad_words", "x"}}, "invalid_type", "bad_words"},
      {{{"metadata", 5}}, "invalid_type", "metadata"},
      {{{"metadata", {{"client_request_id", std::string(513, 'x')}}}},
       "string_above_max_length",
       "metadata.client_request_id"},
      {{{"store", "yes"}}, "invalid_type", "store"},
      {{{"instructions", 5}}, "invalid_type", "instructions"},
      {{{"input", 5}}, "invalid_type", "input"},
      {{{"input", {5}}}, "invalid_type", "input[0]"},
      {{{"input", {{{"role", "user"}}}}}, "missing_required_parameter", "input[0].content"},
      {{{"input", {{{"content", "x"}}}}}, "missing_required_parameter", "input[0].role"},
      {{{"input", {{{"role", "robot"}, {"content", "x"}}}}}, "invalid_value", "input[0].role"},
      {{{"input", {{{"type", "function_call_output"}}}}}, "missing_required_parameter", "input[0].call_id"},
      {{{"input", {{{"type", "computer_call"}}}}}, "unsupported_value", "input[0].type"},
      {{{"input", {{{"type", "reasoning"}}}}}, "missing_required_parameter", "input"},
      {{{"input", image}}, "unsupported_value", "input[0].content[0].type"},
      {{{"input", Json::array()}}, "missing_required_parameter", "input"},
      {{{"tools", {{{"type", "function"}}}}}, "missing_required_parameter", "tools[0].name"},
      {{{"tool_choice", "required"}}, "invalid_value", "tool_choice"},
      {{{"text", {{"format", {{"type", "json_schema"}}}}}}, "missing_required_parameter", "text.format.name"},
      {{{"text", {{"format", {{"type", "yaml"}}}}}}, "unsupported_value", "text.format.type"},
      {{{"text", {{"format", {{"type", "regex"}, {"regex", "(?=a)"}}}}}}, "invalid_value", "text.format.regex"},
      {{{"background", true}}, "unsupported_value", "background"},
      {{{"grammar", "root ::= [0-9]"}}, "unsupported_value", "grammar"},
      {{{"truncation", "maybe"}}, "invalid_value", "truncation"},
      {{{"prompt", {{"id", "p"}}}}, "unsupported_value", "prompt"},
      {{{"beam_width", 0}}, "invalid_value", "beam_width"},
      {{{"beam_width", 17}}, "invalid_value", "beam_width"},
      {{{"beam_width", "4"}}, "invalid_type", "beam_width"},
      {{{"length_penalty", 1}}, "invalid_value", "length_penalty"},
      {{{"early_stopping", false}}, "invalid_value", "early_stopping"},
      {{{"beam_width", 1}, {"beam_search_diversity_rate", 1}}, "invalid_value", "beam_search_diversity_rate"},
      {{{"beam_width", 2}, {"beam_search_diversity_rate", -1}}, "invalid_value", "beam_search_diversity_rate"},
      {{{"beam_width", 2}, {"length_penalty", 11}}, "invalid_value", "length_penalty"},
      {{{"beam_width", 2}, {"early_stopping", "soon"}}, "invalid_type", "early_stopping"},
      {{{"beam_width", 2}, {"temperature", 0.7}}, "unsupported_value", "temperature"},
      {{{"beam_width", 2}, {"top_p", 0.7}}, "unsupported_value", "top_p"},
      {{{"beam_width", 2}, {"top_k", 7}}, "unsupported_value", "top_k"},
      {{{"beam_width", 2}, {"min_p", 0.7}}, "unsupported_value", "min_p"},
      {{{"beam_width", 2}, {"top_p_decay", 0.7}}, "unsupported_value", "top_p_decay"},
      {{{"beam_width", 2}, {"top_p_min", 0.7}}, "unsupported_value", "top_p_min"},
      {{{"beam_width", 2}, {"top_p_reset", 7}}, "unsupported_value", "top_p_reset"},
      {{{"seed", 7}, {"beam_width", 2}}, "unsupported_value", "seed"},
      {{{"beam_width", 2}, {"top_logprobs", 2}}, "invalid_value", "top_logprobs"},
      {{{"model", "gpt-9"}}, "model_not_found", "model"},
      {{{"conversation", "conv_nope"}}, "conversation_not_found", "conversation"},
      {{{"conversation", 5}}, "invalid_type", "conversation"},
      {{{"previous_response_id", "resp_nope"}}, "previous_response_not_found", "previous_response_id"},
      {{{"conversation", "a"}, {"previous_response_id", "b"}}, "mutually_exclusive_parameters", "previous_response_id"},
      {{{"ringside", {{"memory_len", 100000}}}}, "invalid_value", "ringside.memory_len"},
      {{{"max_output_tokens", -2}}, "invalid_value", "max_output_tokens"},
      {{{"input", std::string(3000, 'x')}}, "context_length_exceeded", "input"},
  };
  for (const BadField& bad : cases) {
    client.Send(Create(bad.fields));
    const Json frame = client.Frame();
    EXPECT_EQ(frame["type"], "error") << bad.fields;
    EXPECT_EQ(frame["error"]["code"], bad.code) << bad.fields << frame;
    EXPECT_EQ(frame["error"]["param"], bad.param) << bad.fields << frame;
    EXPECT_EQ(frame["error"]["type"], "invalid_request_error") << bad.fields;
    EXPECT_TRUE(frame["status"] == 400 || frame["status"] == 404) << frame;
    EXPECT_FALSE(frame.contains("stream_id"));
  }
  EXPECT_EQ(engine.count(), 0U);
  client.Send(Create());  // the socket remains usable
  engine.Answer(0, "Yo");
  EXPECT_EQ(client.Frames().back()["type"], "response.completed");
}

TEST_F(ResponsesErrorsTest, AcceptsHarmlessValuesAndNulls) {
  const Json fields = {{"tools", Json::array()},
                       {"text", {{"format", {{"type", "text"}}}, {"verbosity", nullptr}}},
                       {"tool_choice", "auto"},
                       {"background", false},
                       {"service_tier", "auto"},
                       {"reasoning", nullptr},
                       {"include", {"reasoning.encrypted_content", "file_search_call.results"}},
                       {"truncation", "disabled"},
                       {"stream", true},
                       {"stream_options", {{"include_obfuscation", false}}},
                       {"parallel_tool_calls", false},
                       {"max_tool_calls", 3},
                       {"prompt_cache_options", {{"mode", "implicit"}, {"ttl", "30m"}}},
                       {"prompt_cache_retention", "24h"},
                       {"prompt", nullptr},
                       {"instructions", nullptr},
                       {"conversation", nullptr},
                       {"previous_response_id", nullptr},
                       {"stream_id", nullptr},
                       {"temperature", nullptr},
                       {"max_output_tokens", 16.0},
                       {"metadata", nullptr},
                       {"model", "tiny"}};
  client.Send(Create(fields));
  ASSERT_EQ(engine.count(), 1U);
  EXPECT_EQ(engine.last().max_tokens, 16);
  EXPECT_EQ(engine.last().sampling.temperature, 1.0);
}

TEST_F(ResponsesErrorsTest, LimitsTheQuotedPartOfABadMessage) {
  const std::string large(1 << 20, 'x');
  const std::vector<Json> messages = {
      {{"type", large}},
      Create({{"model", large}}),
      Create({{"conversation", large}}),
      Create({{"previous_response_id", large}}),
      Create({{"input", {{{"role", large}, {"content", "x"}}}}}),
      Create({{"input", {{{"role", "user"}, {"content", {{{"type", large}}}}}}}}),
      {{"type", "ringside:session.resume"}, {"session", large}},
      {{"type", "ringside:session.rewind"}, {"session", large}, {"to", 0}},
      {{"type", "ringside:session.fork"}, {"session", large}},
      {{"type", "response.steer"}, {"input", large}},
      {{"type", "response.steer"}, {"previous_response_id", large}},
  };
  for (const Json& message : messages) {
    client.Send(message);
    const std::vector<Json> frames = client.Frames();
    ASSERT_THAT(frames, SizeIs(1)) << message.dump().substr(0, 100);
    EXPECT_LT(frames[0].dump().size(), 2'000U) << message.dump().substr(0, 100);
  }
}

TEST_F(ResponsesErrorsTest, MalformedFramesGetTypedErrors) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  std::string deep_objects;
  for (int i = 0; i < 100000; ++i) deep_objects += "{\"a\":";
  for (const std::string& frame :
       {std::string(), std::string("{"), std::string("nul"), std::string("[1]"), std::string("\"x\""), deep,
        deep_objects, std::string("{\"type\":\"response.create\",\"input\":\"\xff\"}"),
        std::string("{\"type\":\"response.create\",\"input\":\"\xed\xa0\x80\"}"),
        std::string(R"({"type":"response.create","input":"\ud800"})"),
        std::string(R"({"type":"response.create","input":"\udc00\ud800"})"),
        std::string(R"({"type":"response.create","temperature":1e999})"),
        std::string(R"({"type":"response.create","temperature":NaN})"),
        std::string(R"({"type":"response.create","input":"x"} {})"), std::string("{\"type\":\"a\0\"}", 13)}) {
    client.Send(frame);
    const Json error = client.Error();
    EXPECT_EQ(error["code"], "invalid_json") << frame.substr(0, 80);
    EXPECT_EQ(error["type"], "invalid_request_error");
  }
  client.Send(std::string(R"({"input":"x"})"));
  EXPECT_EQ(client.Error()["param"], "type");
  client.Send(std::string(R"({"type":5})"));
  EXPECT_EQ(client.Error()["param"], "type");
  client.Send(Json{{"type", "response.inject"}});
  EXPECT_EQ(client.Error()["code"], "unsupported_event_type");
  client.Send(Create());
  EXPECT_EQ(engine.count(), 1U);
}

TEST_F(ResponsesErrorsTest, AcceptsSurrogatePairsAndRepeatedKeys) {
  client.Send(std::string(R"({"type":"response.create","input":"a","input":"\ud83d\ude42"})"));
  ASSERT_EQ(engine.count(), 1U);
  EXPECT_NE(tokenizer.Decode(engine.last().tokens).find("\xf0\x9f\x99\x82"), std::string::npos);
}

TEST_F(ResponsesErrorsTest, FullEngineReturns429) {
  engine.Refuse(Overloaded("The queue is full."));
  client.Send(Create());
  const Json frame = client.Frame();
  EXPECT_EQ(frame["status"], 429);
  EXPECT_EQ(frame["error"]["code"], "rate_limit_exceeded");
  EXPECT_EQ(frame["error"]["retry_after_ms"], 1000);
  TestSocket advised(table, "me", [](const std::string&) { return int64_t{4321}; });
  advised.Send(Create());
  EXPECT_EQ(advised.Error()["retry_after_ms"], 4321);
  advised.Send(Create({{"temperature", "hot"}}));
  EXPECT_FALSE(advised.Error().contains("retry_after_ms")) << "waiting does not help";
}

TEST_F(ResponsesErrorsTest, TurnThatWouldWaitTooLongIsRefused) {
  TestSocket advised(table, "me", [](const std::string&) { return int64_t{4321}; });
  engine.Overload(ServerOverload{.wait_s = 4, .retry_after_s = 7}.ToStatus());
  advised.Send(Create());
  const Json frame = advised.Frame();
  EXPECT_EQ(frame["type"], "error");
  EXPECT_EQ(frame["status"], 429);
  EXPECT_EQ(frame["error"]["code"], "server_overloaded");
  EXPECT_EQ(frame["error"]["retry_after_ms"], 7000) << "not the estimate for a full queue";
  EXPECT_EQ(engine.count(), 0U);
  engine.Overload(Status::Ok());
  advised.Send(Create());
  EXPECT_EQ(advised.Frames().front()["type"], "response.created") << "the connection remains";
}

TEST_F(ResponsesErrorsTest, BusyConversationReturns409) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  client.Frames();
  TestSocket second(table);
  second.Send(Create({{"conversation", id}}));
  const Json frame = second.Frame();
  EXPECT_EQ(frame["status"], 409);
  EXPECT_EQ(frame["error"]["code"], "conversation_locked");
}

TEST_F(ResponsesErrorsTest, IdsOfOtherOwnersAreUnknown) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  engine.Answer(0, "Yo");
  const std::string response = client.Frames().back()["response"]["id"];
  TestSocket stranger(table, "stranger");
  stranger.Send(Create({{"conversation", id}}));
  EXPECT_EQ(stranger.Error()["code"], "conversation_not_found");
  stranger.Send(Create({{"previous_response_id", response}}));
  EXPECT_EQ(stranger.Error()["code"], "previous_response_not_found");
  stranger.Send(Json{{"type", "ringside:session.resume"}, {"session", id}});
  EXPECT_EQ(stranger.Frame()["session_present"], false);
  stranger.Send(Json{{"type", "ringside:session.rewind"}, {"session", id}, {"to", 0}});
  EXPECT_EQ(stranger.Frame()["error"]["code"], "conversation_not_found");
  stranger.Send(Json{{"type", "ringside:session.fork"}, {"session", id}});
  EXPECT_EQ(stranger.Frame()["error"]["code"], "conversation_not_found");
}

}  // namespace
}  // namespace ringside
