// Requests in the style of other servers: tokenizing, server information, answer formats, and answers with a given
// prefix.
#include "engine/grammar/grammar.h"
#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;

class OtherServers : public ChatTest {
 protected:
  static Json Ok(const HttpResponse& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }
  Json Get(const std::string& path) { return Ok(Call("GET", path)); }
  HttpResponse Chat(Json fields) {
    Json body = {{"model", "tiny"}, {"messages", {User("Hi")}}};
    body.update(fields);
    return Post("/v1/chat/completions", body);
  }
  std::string Prompt() { return tokenizer.Decode(engine.last().tokens); }
};

TEST_F(OtherServers, TokenizesMessagesAsChatDoes) {
  const Json messages = {User("Hi"), Assistant("Yo"), User("More")};
  const Json tokens = Ok(Post("/tokenize", {{"model", "tiny"}, {"messages", messages}}))["tokens"];
  EXPECT_EQ(engine.count(), 0u);
  const HttpResponse answer = Post("/v1/chat/completions", {{"messages", messages}});
  EXPECT_EQ(tokens, Json(engine.last().tokens));
  engine.AnswerLast("Yo");
  const std::string text = Ok(Post("/apply-template", {{"messages", messages}}))["prompt"];
  EXPECT_EQ(text, Prompt());
  EXPECT_EQ(Ok(Post("/detokenize", {{"tokens", tokens}}))["prompt"], text);
  const Json closed = Ok(Post("/tokenize", {{"messages", messages}, {"add_generation_prompt", false}}))["tokens"];
  EXPECT_LT(closed.size(), tokens.size());
  const Json named = Ok(Post("/tokenize", {{"prompt", "ab"}, {"return_token_strs", true}}));
  EXPECT_EQ(named["token_strs"], Json::array({"a", "b"}));
}

TEST_F(OtherServers, ErrorsNameWhatCannotBeTokenized) {
  EXPECT_EQ(ErrorOf(Post("/tokenize", {{"messages", {User("Hi")}}, {"prompt", "x"}}), 400)["param"], "messages");
  EXPECT_EQ(ErrorOf(Post("/tokenize", {{"messages", Json::array()}}), 400)["param"], "messages");
  EXPECT_EQ(ErrorOf(Post("/apply-template", {{"prompt", "x"}}), 400)["param"], "messages");
  EXPECT_EQ(ErrorOf(Post("/detokenize", Json::object()), 400)["param"], "tokens");
  EXPECT_EQ(ErrorOf(Post("/detokenize", {{"tokens", {1 << 30}}}), 400)["param"], "tokens");
  EXPECT_EQ(ErrorOf(Post("/detokenize", {{"tokens", "x"}}), 400)["param"], "tokens");
  EXPECT_EQ(Ok(Post("/detokenize", {{"tokens", Json::array()}, {"x", 1}}))["ringside"]["ignored"], Json::array({"x"}));
}

TEST_F(OtherServers, ReportsServerFacts) {
  EXPECT_EQ(Get("/version")["version"], "1.2");
  const Json info = Get("/tokenizer_info");
  EXPECT_TRUE(info.contains("eos_token") && info.contains("bos_token") && info.contains("chat_template"));
  const Json props = Get("/props");
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], TableFixture::Options().request_len());
  EXPECT_EQ(props["modalities"]["vision"], false);
  const Json version = Get("/api/version");
  EXPECT_GE(version["version"].get<std::string>(), "0.13.4");
  EXPECT_EQ(version["ringside"]["version"], "1.2");
}

TEST_F(OtherServers, EveryChunkHasUsage) {
  for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
    Json body = {{"stream", true}, {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}}};
    std::string_view(path) == "/v1/completions" ? body["prompt"] = "ab" : body["messages"] = {User("Hi")};
    ChatStream stream(Post(path, body));
    engine.AnswerLast("Yo!");
    const auto input = static_cast<int64_t>(engine.last().tokens.size());
    int64_t most = 0;
    std::vector<Json> events = stream.Events();
    ASSERT_EQ(events.back(), "done");
    events.pop_back();
    for (const Json& event : events) {
      EXPECT_FALSE(event["usage"].is_null()) << event;
      EXPECT_EQ(event["usage"]["prompt_tokens"], input) << event;
      EXPECT_GE(event["usage"]["completion_tokens"], most) << event;
      most = event["usage"]["completion_tokens"];
      EXPECT_FALSE(event.contains("prompt_token_ids")) << "not asked for";
    }
    EXPECT_EQ(most, 4) << "three letters and the end";
  }
}

TEST_F(OtherServers, BestOfReturnsTheBest) {
  const HttpResponse answer = Post("/v1/completions", {{"prompt", "a"}, {"best_of", 1}, {"n", 1}});
  engine.AnswerLast("b");
  EXPECT_FALSE(Whole(answer).contains("ringside"));
  const HttpResponse more = Post("/v1/completions", {{"prompt", "a"}, {"best_of", 4}});
  engine.AnswerLast("b");
  EXPECT_EQ(Whole(more)["ringside"]["ignored"], Json::array({"best_of"}));
  EXPECT_EQ(ErrorOf(Post("/v1/completions", {{"prompt", "a"}, {"best_of", 1}, {"n", 2}}), 400)["param"], "best_of");
}

TEST_F(OtherServers, ContinuesAPrefilledAnswer) {
  const Json messages = {User("Hi"), Assistant("{\"a\":")};
  HttpResponse answer = Post("/v1/messages", {{"max_tokens", 9}, {"messages", messages}});
  EXPECT_TRUE(Prompt().ends_with("Hi<|im_end|>\n<|im_start|>assistant\n{\"a\":")) << Prompt();
  const int64_t tokens = static_cast<int64_t>(engine.last().tokens.size());
  engine.AnswerLast("1}");
  EXPECT_EQ(Whole(answer)["content"][0]["text"], "1}");
  EXPECT_EQ(Ok(Post("/v1/messages/count_tokens", {{"messages", messages}}))["input_tokens"], tokens);
  answer = Chat({{"messages", messages}, {"continue_final_message", true}, {"add_generation_prompt", false}});
  EXPECT_TRUE(Prompt().ends_with("assistant\n{\"a\":"));
  engine.AnswerLast("1}");
  EXPECT_EQ(Whole(answer)["choices"][0]["message"]["content"], "1}");
  EXPECT_EQ(ErrorOf(Chat({{"continue_final_message", true}}), 400)["param"], "continue_final_message");
  EXPECT_EQ(ErrorOf(Chat({{"add_generation_prompt", false}}), 400)["param"], "add_generation_prompt");
  const Json format = {{"type", "json_object"}};
  EXPECT_EQ(ErrorOf(Chat({{"messages", messages}, {"continue_final_message", true}, {"response_format", format}}),
                    400)["param"],
            "messages");
}

TEST_F(OtherServers, AcceptsAnswerFormats) {
  const Json schema = {{"type", "integer"}};
  const std::tuple<Json, std::string, std::string> cases[] = {
      {{{"structured_outputs", {{"regex", "[ab]+"}}}}, "abba", "c"},
      {{{"structured_outputs", {{"choice", {"a.b", "c"}}}}}, "a.b", "axb"},
      {{{"structured_outputs", {{"json", schema}}}}, "12", "x"},
      {{{"structured_outputs", {{"json_object", true}}}}, "{}", "1"},
      {{{"guided_regex", "[ab]+"}}, "a", "c"},
      {{{"guided_json", schema.dump()}}, "12", "x"},
      {{{"json_schema", schema}}, "12", "x"},
      {{{"grammar", "root ::= \"y\" | \"n\""}}, "y", "x"},
      {{{"guided_grammar", "start: \"y\" | \"n\""}}, "n", "x"},
  };
  for (const auto& [fields, good, bad] : cases) {
    Chat(fields);
    ASSERT_NE(engine.last().grammar, nullptr) << fields;
    EXPECT_TRUE(GrammarMatcher(engine.last().grammar).Append(good).ok()) << fields;
    EXPECT_FALSE(GrammarMatcher(engine.last().grammar).Append(bad).ok()) << fields;
    engine.AnswerLast(good);
  }
  const std::pair<Json, std::string> wrong[] = {
      {{{"guided_json", "{"}}, "guided_json"},
      {{{"guided_json", {{"multipleOf", 2}}}}, "guided_json.multipleOf"},
      {{{"guided_grammar", "start: start"}}, "guided_grammar"},
      {{{"structured_outputs", {{"structural_tag", "x"}}}}, "structured_outputs.structural_tag"},
      {{{"structured_outputs", {{"regex", "a"}, {"json", schema}}}}, "structured_outputs.json"},
      {{{"guided_regex", "a"}, {"response_format", {{"type", "json_object"}}}}, "guided_regex"},
      {{{"guided_choice", Json::array({1})}}, "guided_choice"},
  };
  for (const auto& [fields, param] : wrong) EXPECT_EQ(ErrorOf(Chat(fields), 400)["param"], param) << fields;
}

TEST_F(OtherServers, GenerationContinuesFromItsContext) {
  HttpResponse answer = Post("/api/generate", {{"prompt", "Hi"}, {"stream", false}});
  engine.AnswerLast("Yo");
  const Json first = Whole(answer);
  const std::string before = Prompt();
  EXPECT_FALSE(first.contains("logprobs"));
  answer = Post("/api/generate", {{"prompt", "More"}, {"context", first["context"]}, {"stream", false}});
  EXPECT_EQ(Prompt(), before + "Yo<|im_end|>\n<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\n");
  engine.AnswerLast("Yes");
  EXPECT_GT(Whole(answer)["context"].size(), first["context"].size());
  const HttpResponse bad = Post("/api/generate", {{"prompt", "More"}, {"context", {-1}}});
  EXPECT_THAT(Json::parse(bad.body)["error"].get<std::string>(), HasSubstr("context"));
}

}  // namespace
}  // namespace ringside
