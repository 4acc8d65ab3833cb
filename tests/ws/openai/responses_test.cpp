#include "ws/openai/responses/responses.h"

#include "tests/ws/openai/responses_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST_F(ResponsesTest, AnswerHasTheStandardEventOrder) {
  client.Send(Create());
  engine.Answer(0, "Yo");
  const std::vector<Json> frames = client.Frames();
  EXPECT_THAT(Types(frames),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.output_text.delta", "response.output_text.delta",
                          "response.output_text.done", "response.content_part.done", "response.output_item.done",
                          "response.completed"));
  for (size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i]["sequence_number"], i);
    EXPECT_FALSE(frames[i].contains("stream_id"));
    EXPECT_FALSE(frames[i].contains("ringside"));  // a chain
  }
}

TEST_F(ResponsesTest, EveryEventHasItsFields) {
  client.Send(Create());
  engine.Answer(0, "Yo");
  const std::vector<Json> f = client.Frames();
  ASSERT_THAT(f, SizeIs(10));
  EXPECT_EQ(f[0]["response"]["status"], "in_progress");
  EXPECT_EQ(f[0]["response"]["output"], Json::array());
  EXPECT_EQ(f[1]["response"], f[0]["response"]);
  const std::string item = f[2]["item"]["id"];
  EXPECT_EQ(f[2]["item"], (Json{{"id", item},
                                {"type", "message"},
                                {"status", "in_progress"},
                                {"role", "assistant"},
                                {"content", Json::array()}}));
  EXPECT_EQ(f[3]["part"],
            (Json{{"type", "output_text"}, {"text", ""}, {"annotations", Json::array()}, {"logprobs", Json::array()}}));
  for (const size_t i : {3, 4, 5, 6, 7}) {
    EXPECT_EQ(f[i]["item_id"], item);
    EXPECT_EQ(f[i]["output_index"], 0);
    EXPECT_EQ(f[i]["content_index"], 0);
  }
  EXPECT_EQ(f[4]["delta"], "Y");
  EXPECT_EQ(f[4]["logprobs"], Json::array());
  EXPECT_EQ(f[6]["text"], "Yo");
  EXPECT_EQ(f[6]["logprobs"], Json::array());
  EXPECT_EQ(f[7]["part"]["text"], "Yo");
  EXPECT_EQ(f[8]["item"]["status"], "completed");
  EXPECT_EQ(f[8]["item"]["content"][0], f[7]["part"]);
  EXPECT_EQ(f[9]["response"]["output"], Json::array({f[8]["item"]}));
  EXPECT_EQ(f[9]["response"]["id"], f[0]["response"]["id"]);
}

TEST_F(ResponsesTest, TheResponseObjectIsComplete) {
  clock.AdvanceMs(5250);
  client.Send(Create({{"instructions", "Be kind."},
                      {"metadata", {{"a", "b"}}},
                      {"temperature", 0.5},
                      {"max_output_tokens", 9},
                      {"user", "u"},
                      {"truncation", "auto"}}));
  engine.Answer(0, "Yo");
  const Json r = client.Frames().back()["response"];
  EXPECT_EQ(r["object"], "response");
  EXPECT_EQ(r["id"].get<std::string>().substr(0, 5), "resp_");
  EXPECT_EQ(r["model"], "tiny");
  EXPECT_EQ(r["status"], "completed");
  EXPECT_EQ(r["instructions"], "Be kind.");
  EXPECT_EQ(r["metadata"], (Json{{"a", "b"}}));
  EXPECT_EQ(r["temperature"], 0.5);
  EXPECT_EQ(r["top_p"], 1.0);
  EXPECT_EQ(r["max_output_tokens"], 9);
  EXPECT_EQ(r["truncation"], "auto");
  EXPECT_EQ(r["tools"], Json::array());
  EXPECT_EQ(r["tool_choice"], "auto");
  EXPECT_EQ(r["parallel_tool_calls"], true);
  EXPECT_EQ(r["text"]["format"]["type"], "text");
  EXPECT_EQ(r["user"], "u");
  for (const char* null : {"error", "incomplete_details", "previous_response_id", "conversation", "prompt_cache_key"}) {
    EXPECT_TRUE(r.contains(null) && r[null].is_null()) << null;
  }
  for (const char* time : {"created_at", "completed_at"}) {
    EXPECT_TRUE(r[time].is_number_integer() && r[time] == 5) << r[time];
  }
}

TEST_F(ResponsesTest, UsageShowsNoRecompute) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  engine.Answer(0, "Yo");
  const Json first = client.Frames().back()["response"];
  client.Send(Create({{"conversation", {{"id", id}}}, {"input", "More"}}));
  engine.Answer(1, "No!");
  const Json second = client.Frames().back()["response"];
  const auto tokens = static_cast<int64_t>(engine.requests()[1].tokens.size());
  const Json& usage = second["usage"];
  EXPECT_EQ(usage["input_tokens"], tokens);
  EXPECT_EQ(usage["input_tokens_details"]["cached_tokens"], first["usage"]["input_tokens"]);
  EXPECT_EQ(usage["output_tokens"], 4);
  EXPECT_EQ(usage["output_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_EQ(usage["total_tokens"], tokens + 4);
  EXPECT_EQ(first["ringside"]["source"], "new");
  const Json& report = second["ringside"];
  EXPECT_EQ(report["source"], "slot");
  EXPECT_EQ(report["tokens_reused"].get<int64_t>() + report["tokens_computed"].get<int64_t>(), tokens);
  EXPECT_EQ(report["position"], tokens + 4);
  EXPECT_EQ(report["tokens_evicted"], 0);
  EXPECT_EQ(report["messages_evicted"], 0);
  EXPECT_EQ(report["restore_ms"], 0);
  EXPECT_EQ(report["ttft_ms"], 3);
  EXPECT_EQ(report["waited"], (Json{{"slot_ms", .5}, {"restore_ms", 0}, {"others_ms", .75}, {"prompt_ms", 1.25}}));
  EXPECT_EQ(report["tokens_per_s"], 100);
  EXPECT_EQ(second["conversation"]["id"], id);
}

TEST_F(ResponsesTest, NumbersEventsThroughoutAConversation) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  engine.Answer(0, "Yo");
  client.Send(Create({{"conversation", id}}));
  engine.Answer(1, "No");
  uint64_t expected = 0;
  for (const Json& frame : client.Frames()) EXPECT_EQ(frame["ringside"]["seq"], expected++);
  EXPECT_EQ(expected, 20U);
}

TEST_F(ResponsesTest, ChainContinuesByPreviousResponseId) {
  client.Send(Create());
  engine.Answer(0, "Yo");
  const std::string first = client.Frames().back()["response"]["id"];
  client.Send(Create({{"previous_response_id", first}, {"input", "More"}}));
  engine.Answer(1, "No");
  const Json second = client.Frames().back()["response"];
  EXPECT_EQ(second["previous_response_id"], first);
  EXPECT_GT(engine.last().tokens.size(), engine.requests()[0].tokens.size());
}

TEST_F(ResponsesTest, AcceptsItsOwnOutputAsInput) {
  client.Send(Create({{"include", {"message.output_text.logprobs"}}}));
  engine.Answer(0, "Yo");
  const Json response = client.Frames().back()["response"];
  Json input = Json::array({{{"role", "user"}, {"content", "Hi"}, {"refusal", nullptr}}});
  for (const Json& item : response["output"]) input.push_back(item);
  input.push_back({{"type", "message"},
                   {"role", "user"},
                   {"content", {{{"type", "input_text"}, {"text", "Mo"}}, {{"type", "input_text"}, {"text", "re"}}}}});
  client.Send(Create({{"input", input}}));
  ASSERT_EQ(engine.count(), 2U);
  EXPECT_EQ(tokenizer.Decode(engine.last().tokens),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\nMo\nre<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST_F(ResponsesTest, LogprobsComeWithEveryTextEvent) {
  client.Send(Create({{"include", {"message.output_text.logprobs"}}, {"top_logprobs", 2}}));
  EXPECT_EQ(engine.last().sampling.logprobs, 2);
  engine.Answer(0, "Yo");
  const std::vector<Json> f = client.Frames();
  const Json expected = {
      {"token", "Y"},
      {"logprob", -0.5},
      {"bytes", {89}},
      {"top_logprobs",
       {{{"token", "a"}, {"logprob", -1}, {"bytes", {97}}}, {{"token", "b"}, {"logprob", -1}, {"bytes", {98}}}}}};
  EXPECT_EQ(f[4]["logprobs"], Json::array({expected}));
  EXPECT_EQ(f[6]["delta"], "");
  EXPECT_EQ(f[6]["logprobs"][0]["token"], "<|im_end|>");
  EXPECT_THAT(f[7]["logprobs"], SizeIs(3));
  EXPECT_EQ(f[8]["part"]["logprobs"], f[7]["logprobs"]);
  EXPECT_EQ(f[10]["response"]["output"][0]["content"][0]["logprobs"], f[7]["logprobs"]);
  EXPECT_EQ(f[10]["response"]["usage"]["output_tokens"], 3);
}

TEST_F(ResponsesTest, LogprobsCoverEveryToken) {
  client.Send(Create({{"include", {"message.output_text.logprobs"}}}));
  const auto sink = engine.last().sink;
  const auto step = [&](TokenId id, const std::string& text) { sink->OnTokens({{{id, -1, {}}}, text}); };
  engine.Start(0);
  step('a', "");  // withheld, then delivered with the next
  step('b', "ab");
  step(ByteTokenizer::kImStart, "");
  step('E', "");  // the beginning of a stop string
  engine.End(0);
  std::string text, tokens;
  for (const Json& frame : client.Frames()) {
    if (frame["type"] != "response.output_text.delta") continue;
    text += frame["delta"];
    for (const Json& entry : frame["logprobs"]) tokens += entry["token"];
  }
  EXPECT_EQ(text, "ab");
  EXPECT_EQ(tokens, "ab<|im_start|>E<|im_end|>");
}

TEST_F(ResponsesTest, WarmUpCompletes) {
  for (const Json& how : {Json{{"generate", false}}, Json{{"prompt_cache_options", {{"prewarm", true}}}},
                          Json{{"generate", true}, {"prompt_cache_options", {{"prewarm", true}}}}}) {
    client.Send(Create(how));
    EXPECT_EQ(engine.last().max_tokens, 0);
    engine.AnswerLast("");
    const std::vector<Json> frames = client.Frames();
    ASSERT_THAT(Types(frames), ElementsAre("response.created", "response.completed"));
    EXPECT_EQ(frames[1]["sequence_number"], 1);
    EXPECT_EQ(frames[1]["response"]["output"], Json::array());
    client.Send(Create({{"previous_response_id", frames[1]["response"]["id"]}}));
    engine.AnswerLast("k");
    EXPECT_EQ(client.Frames().back()["type"], "response.completed");
  }
}

TEST_F(ResponsesTest, LimitEndsAsIncomplete) {
  client.Send(Create());
  engine.Answer(0, "Yo", FinishReason::kLength);
  const std::vector<Json> f = client.Frames();
  EXPECT_EQ(f.back()["type"], "response.incomplete");
  EXPECT_EQ(f.back()["response"]["status"], "incomplete");
  EXPECT_EQ(f.back()["response"]["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(f[f.size() - 2]["item"]["status"], "incomplete");
}

TEST_F(ResponsesTest, FullConversationHasItsOwnReason) {
  client.Send(Create());
  engine.Answer(0, "Yo", FinishReason::kSessionFull);
  EXPECT_EQ(client.Frames().back()["response"]["incomplete_details"]["reason"], "session_full");
}

TEST_F(ResponsesTest, RepetitionEndsAsALimitWithItsReason) {
  client.Send(Create());
  engine.Answer(0, "YoYo", FinishReason::kRepetition);
  const Json response = client.Frames().back()["response"];
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(response["ringside"]["incomplete_reason"], "repetition");
}

TEST_F(ResponsesTest, JoinsTextPartsWithANewline) {
  const Json parts = {{{"type", "input_text"}, {"text", "one"}}, {{"type", "input_text"}, {"text", "two"}}};
  client.Send(Create({{"input", {{{"role", "user"}, {"content", parts}}}}}));
  EXPECT_THAT(tokenizer.Decode(engine.last().tokens), ::testing::HasSubstr("user\none\ntwo<|im_end|>"));
}

TEST_F(ResponsesTest, CancelEndsWithThePartialItem) {
  client.Send(Create());
  engine.Start(0);
  engine.Say(0, "Ye");
  client.Send(Json{{"type", "response.cancel"}});
  ASSERT_THAT(engine.cancelled(), SizeIs(1));
  engine.End(0, FinishReason::kCancelled);
  const Json last = client.Frames().back();
  EXPECT_EQ(last["type"], "response.incomplete");
  EXPECT_EQ(last["response"]["status"], "cancelled");
  EXPECT_EQ(last["response"]["output"][0]["content"][0]["text"], "Ye");
  EXPECT_EQ(last["response"]["output"][0]["status"], "incomplete");
  EXPECT_EQ(last["response"]["usage"]["output_tokens"], 2);
}

TEST_F(ResponsesTest, IgnoresLateOrForeignCancel) {
  client.Send(Create());
  engine.Answer(0, "Yo");
  const std::string id = client.Frames().back()["response"]["id"];
  client.Send(Json{{"type", "response.cancel"}, {"response_id", id}});
  client.Send(Json{{"type", "response.cancel"}, {"response_id", "resp_nope"}});
  client.Send(Json{{"type", "response.cancel"}, {"response_id", 5}});
  client.Send(Json{{"type", "response.cancel"}});
  EXPECT_THAT(client.Frames(), SizeIs(0));
  client.Send(Create());
  const std::string running = client.Frames().front()["response"]["id"];
  TestSocket other(table, "other");
  other.Send(Json{{"type", "response.cancel"}, {"response_id", running}});
  EXPECT_THAT(engine.cancelled(), SizeIs(0));
  EXPECT_THAT(other.Frames(), SizeIs(0));
}

TEST_F(ResponsesTest, ServerFailureInterruptsTheResponse) {
  client.Send(Create());
  engine.Start(0);
  engine.End(0, FinishReason::kError, Unavailable("no logit is finite"));
  const Json last = client.Frames().back();
  EXPECT_EQ(last["type"], "response.incomplete");
  EXPECT_EQ(last["response"]["status"], "incomplete");
  EXPECT_EQ(last["response"]["incomplete_details"]["reason"], "interrupted");
  EXPECT_EQ(last["response"]["error"]["code"], "unavailable");
  EXPECT_EQ(last["response"]["error"]["message"], "no logit is finite");
}

TEST_F(ResponsesTest, EngineRefusalIsAFailedResponse) {
  client.Send(Create());
  engine.End(0, FinishReason::kError, Overloaded("too many turns are waiting"));
  const Json last = client.Frames().back();
  EXPECT_EQ(last["type"], "response.failed");
  EXPECT_EQ(last["response"]["status"], "failed");
  EXPECT_EQ(last["response"]["error"]["code"], "rate_limit_exceeded");
  EXPECT_EQ(last["response"]["error"]["message"], "too many turns are waiting");
}

TEST_F(ResponsesTest, RefusesSteeringWithItsInput) {
  client.Send(Json{{"type", "response.steer"}, {"previous_response_id", "resp_x"}, {"input", {{{"role", "user"}}}}});
  const Json frame = client.Frame();
  EXPECT_EQ(frame["type"], "response.steer.failed");
  EXPECT_EQ(frame["error"]["code"], "steering_not_supported");
  EXPECT_EQ(frame["steer"]["previous_response_id"], "resp_x");
  EXPECT_EQ(frame["steer"]["input"], Json::array({{{"role", "user"}}}));
  EXPECT_TRUE(frame["sequence_number"].is_number_integer());
}

TEST_F(ResponsesTest, TextIsEscapedAndComplete) {
  const std::string text = "\"\\\n\t\x01\x7f \xf0\x9f\x99\x82 \xc3\xa9 </script>";
  client.Send(Create());
  engine.Start(0);
  TokenDelta delta{{{5, 0, {}}}, text};
  engine.last().sink->OnTokens(delta);
  engine.End(0);
  const std::vector<Json> f = client.Frames();
  EXPECT_EQ(f[4]["delta"], text);
  EXPECT_EQ(f.back()["response"]["output"][0]["content"][0]["text"], text);
}

TEST_F(ResponsesTest, PassesSamplingFieldsToTheEngine) {
  client.Send(Create({{"temperature", 0.25},
                      {"top_p", 0.5},
                      {"top_k", 7},
                      {"min_p", 0.1},
                      {"seed", 42},
                      {"repetition_penalty", 1.1},
                      {"presence_penalty", 0.2},
                      {"frequency_penalty", 0.3},
                      {"min_tokens", 2},
                      {"top_p_decay", 0.9},
                      {"top_p_min", 0.01},
                      {"top_p_reset", 10},
                      {"stop", {"END", "\n\n"}},
                      {"stop_token_ids", {3}},
                      {"logit_bias", {{"5", -100}}},
                      {"bad_words", {"x", {1, 2}}},
                      {"max_output_tokens", 16},
                      {"ignore_eos", true}}));
  const TurnRequest request = engine.last();
  const SamplingParams& s = request.sampling;
  EXPECT_EQ(s.temperature, 0.25);
  EXPECT_EQ(s.top_p, 0.5);
  EXPECT_EQ(s.top_k, 7);
  EXPECT_EQ(s.min_p, 0.1);
  EXPECT_EQ(s.seed, 42U);
  EXPECT_EQ(s.repetition_penalty, 1.1);
  EXPECT_EQ(s.presence_penalty, 0.2);
  EXPECT_EQ(s.frequency_penalty, 0.3);
  EXPECT_EQ(s.min_tokens, 2);
  EXPECT_EQ(s.top_p_decay, 0.9);
  EXPECT_EQ(s.top_p_min, 0.01);
  EXPECT_EQ(s.top_p_reset, 10);
  EXPECT_EQ(s.logprobs, -1);
  EXPECT_THAT(s.logit_bias, ElementsAre(std::pair<TokenId, float>(5, -100)));
  EXPECT_THAT(s.bad_words, SizeIs(3));
  EXPECT_THAT(request.stop_strings, ElementsAre("END", "\n\n"));
  EXPECT_THAT(request.stop_ids, ElementsAre(3));
  EXPECT_EQ(request.max_tokens, 16);
  client.Send(Create({{"stop", "END"}, {"stream_id", "b"}}));
  EXPECT_THAT(engine.last().stop_strings, ElementsAre("END"));
}

TEST_F(ResponsesTest, PassesBeamsToTheEngine) {
  using EarlyStopping = BeamParams::EarlyStopping;
  client.Send(Create({{"beam_width", 4},
                      {"length_penalty", 0.5},
                      {"early_stopping", "never"},
                      {"beam_search_diversity_rate", 0.25},
                      {"repetition_penalty", 1.1},
                      {"temperature", 0}}));
  EXPECT_EQ(engine.last().sampling.beams, (BeamParams{4, 0.5, EarlyStopping::kNever, 0.25}));
  EXPECT_EQ(engine.last().sampling.temperature, 0);
  EXPECT_EQ(engine.last().sampling.repetition_penalty, 1.1);
  client.Send(Create({{"beam_width", 16}, {"early_stopping", true}, {"stream_id", "b"}}));
  EXPECT_EQ(engine.last().sampling.beams, (BeamParams{16, 1, EarlyStopping::kYes, 0}));
  EXPECT_EQ(engine.last().sampling.temperature, 0);  // overrides the server's default
  client.Send(Create({{"beam_width", 1}, {"temperature", 0.5}, {"stream_id", "c"}}));
  EXPECT_FALSE(engine.last().sampling.beams.searches());
  EXPECT_EQ(engine.last().sampling.temperature, 0.5);
}

TEST_F(ResponsesTest, TheSeedIsRandomUnlessGiven) {
  client.Send(Create());
  client.Send(Create({{"stream_id", "b"}}));
  EXPECT_NE(engine.requests()[0].sampling.seed, engine.requests()[1].sampling.seed);
}

TEST_F(ResponsesTest, ReportsDraftsIfThereAreAny) {
  const auto report = [&] {
    client.Send(Create());
    engine.AnswerLast("Yo");
    return client.Frames().back()["response"]["ringside"];
  };
  EXPECT_FALSE(report().contains("speculation"));
  engine.Draft({.steps = 2, .drafted = 9, .accepted = 7});
  EXPECT_EQ(report()["speculation"], Json({{"drafted", 9}, {"accepted", 7}, {"steps", 2}}));
}

TEST_F(ResponsesTest, ReportsReplayedTokensIfThereAreAny) {
  const auto report = [&] {
    client.Send(Create());
    engine.AnswerLast("Yo");
    return client.Frames().back()["response"]["ringside"];
  };
  EXPECT_FALSE(report().contains("tokens_replayed"));
  engine.Replay(41);
  EXPECT_EQ(report()["tokens_replayed"], 41);
}

TEST_F(ResponsesTest, AnnouncesEvictedMessagesOnce) {
  const std::string id = NewConversation();
  const auto turn = [&] {
    client.Send(Create({{"conversation", id}}));
    engine.AnswerLast("Yo");
    return client.Frames();
  };
  EXPECT_THAT(turn(), SizeIs(10));
  engine.Evict(57, 2);
  const std::vector<Json> frames = turn();
  ASSERT_THAT(frames, SizeIs(11));
  EXPECT_EQ(frames[9], (Json{{"type", "ringside:session.evicted"}, {"session", id}, {"messages", 2}, {"tokens", 57}}));
  EXPECT_EQ(frames[10]["type"], "response.completed");
  EXPECT_EQ(frames[10]["response"]["ringside"]["tokens_evicted"], 57);
  EXPECT_THAT(turn(), SizeIs(10));
  client.Send(Create());  // a chain has no subscribers to notify
  engine.AnswerLast("Yo");
  EXPECT_THAT(client.Frames(), SizeIs(10));
}

TEST_F(ResponsesTest, RepeatedCreateReattaches) {
  const std::string id = NewConversation();
  const Json create = Create({{"conversation", id}, {"metadata", {{"client_request_id", "r1"}}}});
  client.Send(create);
  engine.Start(0);
  engine.Say(0, "Y");
  TestSocket second(table);
  second.Send(create);
  engine.Say(0, "o");
  engine.End(0);
  const std::vector<Json> first = client.Frames();
  EXPECT_EQ(second.Frames(), first);
  EXPECT_EQ(engine.count(), 1U);
  Json other = create;
  other["input"] = "Something else";  // the same id on a different request is no repetition
  second.Send(other);
  EXPECT_EQ(engine.count(), 2U);
}

}  // namespace
}  // namespace ringside
