#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

using ::testing::SizeIs;

class TextCompletionsTest : public ChatTest {
 protected:
  HttpResponse Ask(Json fields) {
    Json body = {{"model", "tiny"}};
    body.update(fields);
    return Post("/v1/completions", body);
  }
};

TEST_F(TextCompletionsTest, ContinuesAPrompt) {
  const HttpResponse answer = Ask({{"prompt", "Once"}, {"max_tokens", 5}});
  EXPECT_EQ(engine.last().tokens, Bytes("Once"));
  EXPECT_EQ(engine.last().max_tokens, 5);
  EXPECT_TRUE(engine.last().continues_answer) << "a space at the beginning of the answer is text";
  engine.AnswerLast(" upon");
  const Json whole = Whole(answer);
  EXPECT_EQ(whole["object"], "text_completion");
  EXPECT_TRUE(whole["id"].get<std::string>().starts_with("cmpl-"));
  const Json expected = {{"index", 0}, {"text", " upon"}, {"logprobs", nullptr}, {"finish_reason", "stop"}};
  EXPECT_EQ(whole["choices"][0], expected);
  EXPECT_EQ(whole["usage"]["prompt_tokens"], 4);
}

TEST_F(TextCompletionsTest, AcceptsEveryPromptForm) {
  const HttpResponse tokens = Ask({{"prompt", {72, 105}}});
  EXPECT_EQ(engine.last().tokens, Bytes("Hi"));
  engine.AnswerLast("a");
  EXPECT_EQ(Whole(tokens)["choices"][0]["text"], "a");

  const HttpResponse several = Ask({{"prompt", {"one", "two"}}, {"echo", true}});
  ASSERT_EQ(engine.count(), 3u);
  engine.Answer(2, "b");
  engine.Answer(1, "a");
  const Json whole = Whole(several);
  EXPECT_EQ(whole["choices"][0]["text"], "onea");
  EXPECT_EQ(whole["choices"][1]["text"], "twob");
  EXPECT_EQ(whole["usage"]["prompt_tokens"], 6);

  const HttpResponse lists = Ask({{"prompt", {{72, 105}, {72, 256}}}, {"echo", true}});
  engine.Answer(3, "a");
  engine.Answer(4, "b");
  EXPECT_EQ(Whole(lists)["choices"][1]["text"], "H<|im_start|>b");
}

TEST_F(TextCompletionsTest, NumbersChoicesAcrossPrompts) {
  const HttpResponse answer = Ask({{"prompt", {"one", "two"}}, {"n", 2}});
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(Eventually([&] { return engine.count() > i; }));
    engine.Answer(i, std::string(1, static_cast<char>('a' + i)));
  }
  const Json whole = Whole(answer);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(whole["choices"][i]["text"], std::string(1, static_cast<char>('a' + i)));
    EXPECT_EQ(engine.requests()[i].tokens, Bytes(i < 2 ? "one" : "two"));
  }
  EXPECT_EQ(whole["usage"]["prompt_tokens"], 6);
}

TEST_F(TextCompletionsTest, StreamHasTextsWithLogprobs) {
  ChatStream stream(Ask({{"prompt", "Once"}, {"stream", true}, {"logprobs", 1}}));
  engine.AnswerLast("ab");
  const std::vector<Json> events = stream.Events();
  ASSERT_THAT(events, SizeIs(5));
  const Json logprobs = events[1]["choices"][0]["logprobs"];
  EXPECT_EQ(events[1]["choices"][0]["text"], "b");
  EXPECT_EQ(logprobs["tokens"], Json::array({"b"}));
  EXPECT_EQ(logprobs["token_logprobs"], Json::array({-0.5}));
  EXPECT_EQ(logprobs["top_logprobs"], Json::array({{{"a", -1.0}}}));
  EXPECT_EQ(logprobs["text_offset"], Json::array({1}));
  EXPECT_EQ(events[2]["choices"][0]["logprobs"]["tokens"], Json::array({""})) << "it has no text";
  EXPECT_EQ(events[2]["choices"][0]["logprobs"]["text_offset"], Json::array({2}));
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[4], "done");

  ChatStream echo(Ask({{"prompt", "Once"}, {"stream", true}, {"echo", true}}));
  engine.AnswerLast("a");
  EXPECT_EQ(echo.Events()[0]["choices"][0]["text"], "Once");
}

TEST_F(TextCompletionsTest, ReturnsTokenIdsWholeAndStreamed) {
  const HttpResponse answer = Ask({{"prompt", {"one", "two"}}, {"return_token_ids", true}});
  engine.Answer(0, "ab");
  engine.Answer(1, "c");
  const Json choices = Whole(answer)["choices"];
  EXPECT_EQ(choices[0]["prompt_token_ids"], Json(Bytes("one")));
  EXPECT_EQ(choices[0]["token_ids"], Json({'a', 'b', ByteTokenizer::kImEnd}));
  EXPECT_EQ(choices[1]["prompt_token_ids"], Json(Bytes("two")));
  EXPECT_EQ(choices[1]["token_ids"], Json({'c', ByteTokenizer::kImEnd}));

  ChatStream stream(Ask({{"prompt", "one"}, {"return_token_ids", true}, {"stream", true}, {"logprobs", 0}}));
  engine.AnswerLast("ab");
  const std::vector<Json> events = stream.Events();
  EXPECT_EQ(events[0]["choices"][0]["prompt_token_ids"], Json(Bytes("one")));
  Json ids = Json::array(), tokens = Json::array();
  for (const Json& event : events) {
    if (event == "done" || !event["choices"][0].contains("token_ids")) continue;
    for (const Json& id : event["choices"][0]["token_ids"]) ids.push_back(id);
    for (const Json& token : event["choices"][0]["logprobs"]["tokens"]) tokens.push_back(token);
  }
  EXPECT_EQ(ids, Json({'a', 'b', ByteTokenizer::kImEnd}));
  EXPECT_EQ(tokens, Json({"a", "b", ""}));
}

TEST_F(TextCompletionsTest, AnswerFollowsAFormat) {
  const HttpResponse answer =
      Ask({{"prompt", "x"}, {"response_format", {{"type", "regex"}, {"regex", "[ab]+"}}}, {"stop", "zz"}});
  EXPECT_NE(engine.last().grammar, nullptr);
  engine.AnswerLast("ab");
  EXPECT_EQ(Whole(answer)["choices"][0]["text"], "ab");
  const Json schema = {{"type", "json_schema"},
                       {"json_schema", {{"name", "n"}, {"schema", {{"type", "frob"}}}, {"strict", true}}}};
  EXPECT_EQ(ErrorOf(Ask({{"prompt", "x"}, {"response_format", schema}}), 400)["param"],
            "response_format.json_schema.schema.type");
  EXPECT_EQ(ErrorOf(Ask({{"prompt", "x"}, {"response_format", 1}}), 400)["code"], "invalid_type");
}

// Offsets count characters: U+FFFD is one, and so is a character of several tokens, from its first token on.
TEST_F(TextCompletionsTest, OffsetsFollowTheTextAfterInvalidBytes) {
  const HttpResponse answer = Ask({{"prompt", "x"}, {"logprobs", 0}});
  engine.Start(0);
  const std::pair<int, const char*> steps[] = {{0xFF, "\uFFFD"}, {'a', "a"}, {0x82, "\uFFFD"}, {0xC3, ""},
                                               {0xA9, "\u00e9"}, {0xE2, ""}, {'b', "\uFFFDb"}};
  for (const auto& [id, text] : steps) engine.last().sink->OnTokens({{{id, -1, {}}}, text});
  engine.End(0);
  const Json choice = Whole(answer)["choices"][0];
  EXPECT_EQ(choice["text"], "\uFFFDa\uFFFD\u00e9\uFFFDb");
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json({0, 1, 2, 3, 4, 4, 5, 6}));
}

TEST_F(TextCompletionsTest, EveryTopTokenHasAKey) {
  const HttpResponse answer = Ask({{"prompt", "x"}, {"logprobs", 4}});
  engine.Start(0);
  engine.last().sink->OnTokens(
      {{{0xFF, -1, {{0xFF, -1}, {0xFE, -2}, {'a', -3}, {'a', -4}, {ByteTokenizer::kImEnd, -5}}}}, "\uFFFD"});
  engine.End(0);
  const Json top = Whole(answer)["choices"][0]["logprobs"]["top_logprobs"][0];
  EXPECT_EQ(top, Json({{"bytes:\\xff", -1.0}, {"bytes:\\xfe", -2.0}, {"a", -3.0}, {"<|im_end|>", -5.0}}));
}

SessionTableOptions BeginningTexts() {
  SessionTableOptions options = TableFixture::Options();
  options.text_begin = ByteTokenizer::kImStart;
  options.embedding_size = 4;
  return options;
}

class BegunTextsTest : public ChatTest {
 protected:
  BegunTextsTest() : ChatTest(BeginningTexts()) {}
  Json Echoed(const Json& prompt) {
    const HttpResponse answer =
        Post("/v1/completions", {{"prompt", prompt}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 0}});
    const size_t turn = engine.count() - 1;
    engine.Start(turn);
    engine.Score(turn);
    engine.End(turn, FinishReason::kLength);
    return Whole(answer)["choices"][0];
  }
  std::vector<TokenId> TokensOf(Json fields) {
    const HttpResponse answer = Post("/v1/completions", fields);
    EXPECT_NE(answer.later, nullptr) << answer.body;
    const std::vector<TokenId> tokens = engine.last().tokens;
    engine.AnswerLast("x");
    return tokens;
  }
};

TEST_F(BegunTextsTest, TextStartsWithTheModelsPrefixTokens) {
  const std::vector<TokenId> begun = {256, 'H', 'i'};
  EXPECT_EQ(TokensOf({{"prompt", "Hi"}}), begun);
  EXPECT_EQ(TokensOf({{"prompt", "<|im_start|>Hi"}}), begun) << "it has it already";
  EXPECT_EQ(TokensOf({{"prompt", {"Hi"}}}), begun);
  EXPECT_EQ(TokensOf({{"prompt", "Hi"}, {"add_special_tokens", false}}), Bytes("Hi"));
  EXPECT_EQ(TokensOf({{"prompt", {72, 105}}}), Bytes("Hi")) << "ids are taken as they are";
  EXPECT_EQ(ErrorOf(Post("/v1/completions", {{"prompt", ""}}), 400)["code"], "invalid_value");
  const auto ids = [&](const Json& body) { return Json::parse(Post("/tokenize", body).body)["tokens"]; };
  EXPECT_EQ(ids({{"prompt", "Hi"}}), Json::array({256, 72, 105}));
  EXPECT_EQ(ids({{"prompt", "Hi"}, {"add_special_tokens", false}}), Json::array({72, 105}));
  EXPECT_EQ(ids({{"content", "Hi"}}), Json::array({72, 105})) << "as llama.cpp has it";
  EXPECT_EQ(ids({{"content", "Hi"}, {"add_special", true}}), Json::array({256, 72, 105}));
  (void)Post("/v1/embeddings", {{"input", "Hi"}, {"model", "tiny"}});
  EXPECT_EQ(engine.last().tokens, begun);
  (void)Post("/api/generate", {{"prompt", "Hi"}, {"raw", true}, {"model", "tiny"}});
  EXPECT_EQ(engine.last().tokens, begun);
}

TEST_F(BegunTextsTest, EchoOmitsPrefixTokens) {
  const Json begun = Echoed("Hi");
  EXPECT_EQ(begun["text"], "Hi");
  EXPECT_EQ(begun["logprobs"]["tokens"], Json::array({"<|im_start|>", "H", "i"}));
  EXPECT_EQ(begun["logprobs"]["text_offset"], Json::array({0, 0, 1}));
  EXPECT_EQ(begun["logprobs"]["token_logprobs"], Json::array({nullptr, -0.25, -0.25})) << "the text's first has one";
  const Json written = Echoed("<|im_start|>Hi");
  EXPECT_EQ(written["text"], "<|im_start|>Hi");
  EXPECT_EQ(written["logprobs"]["text_offset"], Json::array({0, 12, 13}));
  tokenizer.adds_space = true;
  EXPECT_EQ(Echoed("Hi")["logprobs"]["text_offset"], Json::array({0, 0, 0, 1}));
  EXPECT_EQ(Echoed(" Hi")["logprobs"]["text_offset"], Json::array({0, 0, 0, 1, 2})) << "one space is the prompt's";
}

TEST_F(TextCompletionsTest, EchoedPromptHasLogprobs) {
  const HttpResponse answer = Ask({{"prompt", "Hé!"}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 0}});
  const TurnRequest request = engine.last();
  EXPECT_TRUE(request.scored);
  EXPECT_EQ(request.max_tokens, 0);
  EXPECT_EQ(request.sampling.logprobs, 1);
  engine.Start(0);
  engine.Score(0);
  engine.End(0, FinishReason::kLength);
  const Json choice = Whole(answer)["choices"][0], logprobs = choice["logprobs"];
  EXPECT_EQ(choice["text"], "Hé!");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_THAT(logprobs["tokens"], SizeIs(4)) << "a character of two bytes has two tokens";
  EXPECT_EQ(logprobs["token_logprobs"], Json::array({nullptr, -0.25, -0.25, -0.25}));
  EXPECT_EQ(logprobs["top_logprobs"][0], nullptr);
  EXPECT_EQ(logprobs["top_logprobs"][3], Json({{"a", -0.125}}));
  EXPECT_EQ(logprobs["text_offset"], Json::array({0, 1, 2, 2}));
}

// The echo of an invalid byte is longer than its token.
TEST_F(TextCompletionsTest, OffsetsCountCharacters) {
  const HttpResponse answer =
      Ask({{"prompt", {0xFF, 'a', ' ', 'b'}}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 0}});
  engine.Start(0);
  engine.Score(0);
  engine.End(0, FinishReason::kLength);
  const Json choice = Whole(answer)["choices"][0];
  EXPECT_EQ(choice["text"], "\uFFFDa b");
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json::array({0, 1, 2, 3}));
}

TEST_F(TextCompletionsTest, ScoredPromptIsRecomputedAndThenContinued) {
  const std::string prompt(400, 'x');
  const HttpResponse plain = Ask({{"prompt", prompt}});
  engine.AnswerLast("y");
  EXPECT_FALSE(engine.requests()[0].scored);
  const HttpResponse scored = Ask({{"prompt", prompt + "y"}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 1}});
  EXPECT_NE(engine.requests()[1].timeline, engine.requests()[0].timeline);
  EXPECT_TRUE(engine.forks().empty()) << "nothing of another timeline is used";
  engine.Start(1);
  engine.Score(1);
  engine.Say(1, "z");
  engine.End(1);
  const Json choice = Whole(scored)["choices"][0];
  EXPECT_EQ(choice["text"], prompt + "yz");
  EXPECT_THAT(choice["logprobs"]["tokens"], SizeIs(403));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"][401], -0.5);
  EXPECT_EQ(choice["logprobs"]["text_offset"][401], 401);
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][1], Json::object());
}

TEST_F(TextCompletionsTest, TokenizesTexts) {
  const auto tokenize = [&](const Json& body) { return Post("/tokenize", body); };
  const Json told = Json::parse(tokenize({{"prompt", "Hi<|im_start|>"}, {"model", "tiny"}}).body);
  EXPECT_EQ(told["tokens"], Json::array({72, 105, 256}));
  EXPECT_EQ(told["count"], 3);
  EXPECT_EQ(Json::parse(tokenize({{"content", "Hi"}, {"prompt", "Hi"}, {"add_special_tokens", false}}).body)["count"],
            2);
  EXPECT_EQ(Json::parse(tokenize({{"content", ""}}).body)["tokens"], Json::array());
  const int64_t most = table.options().request_len();
  EXPECT_EQ(told["max_model_len"], most);
  EXPECT_EQ(Ask({{"prompt", std::string(static_cast<size_t>(most), 'x')}}).status, 200);
  EXPECT_EQ(ErrorOf(Ask({{"prompt", std::string(static_cast<size_t>(most) + 1, 'x')}}), 400)["code"],
            "context_length_exceeded");
  const std::vector<std::tuple<Json, std::string, std::string>> cases = {
      {Json::object(), "missing_required_parameter", "prompt"},
      {{{"prompt", 5}}, "invalid_type", "prompt"},
      {{{"prompt", "a"}, {"content", "b"}}, "mutually_exclusive_parameters", "content"},
      {{{"prompt", "a"}, {"add_special_tokens", 1}}, "invalid_type", "add_special_tokens"},
  };
  for (const auto& [body, code, param] : cases) {
    const Json error = ErrorOf(tokenize(body), 400);
    EXPECT_EQ(error["code"], code) << body << error;
    EXPECT_EQ(error["param"], param) << body << error;
  }
}

TEST_F(TextCompletionsTest, ErrorsNameTheField) {
  const std::vector<std::tuple<Json, std::string, std::string>> cases = {
      {Json::object(), "missing_required_parameter", "prompt"},
      {{{"prompt", ""}}, "invalid_value", "prompt"},
      {{{"prompt", 5}}, "invalid_type", "prompt"},
      {{{"prompt", Json::array()}}, "invalid_type", "prompt"},
      {{{"prompt", {"a", 5}}}, "invalid_type", "prompt[1]"},
      {{{"prompt", {5, "a"}}}, "invalid_type", "prompt"},
      {{{"prompt", {1, 300}}}, "invalid_value", "prompt"},
      {{{"prompt", std::vector<std::string>(200, "a")}}, "array_above_max_length", "prompt"},
      {{{"prompt", {"a", "b"}}, {"n", 100}}, "invalid_value", "n"},
      {{{"prompt", "a"}, {"suffix", "z"}}, "unsupported_value", "suffix"},
      {{{"prompt", "a"}, {"beam_width", 2}, {"temperature", 1}}, "unsupported_value", "temperature"},
      {{{"prompt", "a"}, {"beam_width", 2}, {"logprobs", 1}}, "invalid_value", "top_logprobs"},
      {{{"prompt", "a"}, {"echo", true}, {"logprobs", 1}, {"stream", true}}, "unsupported_value", "logprobs"},
      {{{"prompt", "a"}, {"max_tokens", 0}}, "invalid_value", "max_tokens"},
      {{{"prompt", "a"}, {"max_tokens", -2}}, "invalid_value", "max_tokens"},
      {{{"prompt", "a"}, {"messages", {User("b")}}}, "unsupported_value", "messages"},
  };
  for (const auto& [fields, code, param] : cases) {
    const Json error = ErrorOf(Ask(fields), 400);
    EXPECT_EQ(error["code"], code) << fields << error;
    EXPECT_EQ(error["param"], param) << fields << error;
  }
  const HttpResponse harmless = Ask({{"prompt", "a"}, {"suffix", nullptr}, {"best_of", 1}, {"logprobs", nullptr}});
  engine.AnswerLast("b");
  EXPECT_EQ(Whole(harmless)["choices"][0]["text"], "b");
}

}  // namespace
}  // namespace ringside
