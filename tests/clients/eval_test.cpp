#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "clients/eval/figures.h"
#include "clients/eval/likelihoods.h"
#include "clients/eval/samples.h"

namespace ringside::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

std::vector<int64_t> Ids(size_t n) {
  std::vector<int64_t> ids(n);
  std::iota(ids.begin(), ids.end(), 100);
  return ids;
}

/// Positions in the text of the scored tokens, per window.
std::vector<std::vector<int64_t>> CountedOf(const std::vector<Sample>& windows) {
  std::vector<std::vector<int64_t>> counted;
  for (const Sample& window : windows) {
    const Prompt& prompt = window.prompts.front();
    counted.emplace_back();
    for (size_t i = prompt.from; i < prompt.ids.size(); ++i) counted.back().push_back(prompt.ids[i] - 100);
  }
  return counted;
}

TEST(SlidingWindows, CountsEachTokenOnceWithItsContextInTheWindow) {
  const std::vector<Sample> windows = SlidingWindows(Ids(10), {}, 4, 2);
  EXPECT_THAT(CountedOf(windows),
              ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4, 5), ElementsAre(6, 7), ElementsAre(8, 9)));
  EXPECT_THAT(windows[1].prompts[0].ids, ElementsAre(102, 103, 104, 105));
  EXPECT_THAT(CountedOf(SlidingWindows(Ids(7), {}, 4, 2)),
              ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4, 5), ElementsAre(6)));
  EXPECT_THAT(CountedOf(SlidingWindows(Ids(3), {}, 9, 9)), ElementsAre(ElementsAre(1, 2)));
}

TEST(SlidingWindows, FirstTokenOfAWindowCountsOnlyAfterAPrefix) {
  EXPECT_THAT(CountedOf(SlidingWindows(Ids(7), {}, 3, 3)), ElementsAre(ElementsAre(1, 2), ElementsAre(4, 5)))
      << "of the last window there is one token, which nothing precedes";
  const std::vector<Sample> windows = SlidingWindows(Ids(5), {7, 8}, 5, 3);
  EXPECT_THAT(CountedOf(windows), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4)));
  EXPECT_THAT(windows[1].prompts[0].ids, ElementsAre(7, 8, 103, 104));
  EXPECT_TRUE(SlidingWindows(Ids(1), {}, 4, 2).empty());
  EXPECT_TRUE(SlidingWindows({}, {7}, 4, 2).empty());
}

TEST(Passages, LastWordIncludesItsSpace) {
  const auto samples = ReadPassages("{\"text\": \"Où est-il né ? À Paris.\\n\"}\n\n{\"text\": \"a\\nb\"}\n", "<s>");
  ASSERT_TRUE(samples.ok()) << samples.failure().message;
  ASSERT_EQ(samples->size(), 2u);
  EXPECT_EQ((*samples)[0].prompts[0].text, "<s>Où est-il né ? À Paris.");
  EXPECT_EQ((*samples)[0].prompts[0].from, 19u);
  EXPECT_EQ((*samples)[1].prompts[0].from, 4u);
}

TEST(Questions, EachChoiceFollowsTheQuestion) {
  const auto samples = ReadQuestions(R"({"question": "Il est", "choices": ["né", "a b"], "answer": "a b", "id": 5}
{"question": "b", "choices": ["c", "d"], "answer": 0})",
                                     "");
  ASSERT_TRUE(samples.ok()) << samples.failure().message;
  const Sample& first = samples->front();
  EXPECT_EQ(first.prompts[1].text, "Il est a b");
  EXPECT_EQ(first.prompts[1].from, 6u);
  EXPECT_THAT(first.answer_sizes, ElementsAre(2, 3));
  EXPECT_EQ(first.right, 1u);
  EXPECT_EQ((*samples)[1].right, 0u);
}

TEST(Samples, ErrorsNameTheirLine) {
  const auto why = [](const Outcome<std::vector<Sample>>& samples) {
    EXPECT_FALSE(samples.ok());
    return samples.ok() ? "" : samples.failure().message;
  };
  EXPECT_THAT(why(ReadPassages("", "")), HasSubstr("no samples"));
  EXPECT_THAT(why(ReadPassages("{\"text\": \"a b\"}\n{\"text\": 5}\n", "")), HasSubstr("Line 2: it is not a sample"));
  EXPECT_THAT(why(ReadPassages("{\"text\": \" alone \"}\n", "")), HasSubstr("Line 1: its text has no word before"));
  EXPECT_THAT(why(ReadPassages("{\"text\"", "")), HasSubstr("Line 1"));
  const auto question = [&](const char* line) { return why(ReadQuestions(line, "")); };
  EXPECT_THAT(question(R"({"question": "a", "choices": ["b"], "answer": 0})"), HasSubstr("fewer than two"));
  for (const char* answer : {"2", "-1", "\"d\"", "true", "null", "0.0"}) {
    const std::string line = std::string(R"({"question": "a", "choices": ["b", "c"], "answer": )") + answer + "}";
    EXPECT_THAT(question(line.c_str()), HasSubstr("answer is not among its choices"));
  }
  EXPECT_THAT(question(R"({"question": "", "choices": ["b", "c"], "answer": 0})"), HasSubstr("question is empty"));
  EXPECT_THAT(question(R"({"question": "a", "choices": ["b", ""], "answer": 0})"), HasSubstr("choices is empty"));
}

/// A /completions answer to one prompt of four tokens at these character offsets.
std::string AnswerOf(const Json& offsets, const Json& tops = {nullptr, {{"x", -1}}, {{"x", -1}}, {{"x", -1}}}) {
  return Json{{"choices",
               {{{"index", 0},
                 {"logprobs",
                  {{"token_logprobs", {nullptr, -0.5, -1, -2}}, {"top_logprobs", tops}, {"text_offset", offsets}}}}}}}
      .dump();
}

TEST(Likelihoods, AddsNoPrefixToAPrompt) {
  const Json asked = Json::parse(LikelihoodRequest("m", {{.text = "<s>a", .from = 3}}));
  EXPECT_EQ(asked["prompt"], Json::array({"<s>a"}));
  EXPECT_EQ(asked["add_special_tokens"], false);
}

TEST(Likelihoods, CountsTokensAfterTheBoundary) {
  const auto logprobs = [](const Prompt& prompt, const std::string& answer) {
    const auto read = ReadLikelihoods(answer, {prompt});
    EXPECT_TRUE(read.ok());
    return read.ok() ? read->front().logprobs : std::vector<double>();
  };
  const std::string answer = AnswerOf({0, 2, 5, 8});
  EXPECT_THAT(logprobs({.text = "abcdefghij", .from = 5}, answer), ElementsAre(-1, -2));
  EXPECT_THAT(logprobs({.text = "abcdefghij", .from = 6}, answer), ElementsAre(-1, -2)) << "one lies across the border";
  EXPECT_THAT(logprobs({.text = "abcdefghij", .from = 4}, answer), ElementsAre(-0.5, -1, -2));
  EXPECT_THAT(logprobs({.text = "abcdefgh", .from = 5}, answer), ElementsAre(-1)) << "the last is the server's own";
  EXPECT_THAT(logprobs({.text = "abécdefg", .from = 7}, AnswerOf({0, 2, 3, 7})), ElementsAre(-2));
  EXPECT_THAT(logprobs({.ids = {5, 6, 7}, .from = 2}, answer), ElementsAre(-1));
}

TEST(Likelihoods, GreedyMeansNoLikelierToken) {
  const auto greedy = [](const Json& tops) {
    return ReadLikelihoods(AnswerOf({0, 1, 2, 3}, tops), {{.ids = {1, 2, 3, 4}, .from = 2}})->front().greedy;
  };
  EXPECT_TRUE(greedy({nullptr, {{"x", -0.1}}, {{"x", -1}}, {{"x", -2}, {"y", -3}}})) << "the context is not asked";
  EXPECT_FALSE(greedy({nullptr, {{"x", -0.5}}, {{"x", -1}}, {{"x", -1.9}}}));
}

TEST(Likelihoods, SeveralPromptsKeepTheirOrder) {
  const Json answer = {
      {"choices",
       {{{"index", 1}, {"logprobs", {{"token_logprobs", {nullptr, -2}}, {"top_logprobs", {nullptr, {{"x", -2}}}}}}},
        {{"index", 0}, {"logprobs", {{"token_logprobs", {nullptr, -1}}, {"top_logprobs", {nullptr, {{"x", -1}}}}}}}}}};
  const std::vector<Prompt> prompts = {{.ids = {1, 2}, .from = 1}, {.ids = {1, 3}, .from = 1}};
  const auto read = ReadLikelihoods(answer.dump(), prompts);
  ASSERT_TRUE(read.ok());
  EXPECT_THAT((*read)[0].logprobs, ElementsAre(-1));
  EXPECT_THAT((*read)[1].logprobs, ElementsAre(-2));
  const Json asked = Json::parse(LikelihoodRequest("m", prompts));
  EXPECT_EQ(asked["prompt"], Json({{1, 2}, {1, 3}}));
  EXPECT_EQ(asked["max_tokens"], 0);
  EXPECT_TRUE(asked["echo"]);
}

TEST(Likelihoods, NamesAServerWithoutLogprobs) {
  const std::vector<Prompt> prompts = {{.text = "a b", .from = 1}};
  for (
      const char* answer :
      {"", "[]", "{}", R"({"choices": []})", R"({"choices": [{"index": 0, "text": "x", "logprobs": null}]})",
       R"({"choices": [{"index": 1, "logprobs": {}}]})",
       R"({"choices": [{"index": 900000000, "logprobs": {"token_logprobs": [null, -1], "top_logprobs": [null, {"x": -1}],
           "text_offset": [0, 2]}}]})",
       R"({"choices": [{"index": 0, "logprobs": {"token_logprobs": [null], "top_logprobs": [null], "text_offset": [0]}}]})",
       R"({"choices": [{"index": 0, "logprobs": {"token_logprobs": [], "top_logprobs": [], "text_offset": []}}]})"}) {
    const auto read = ReadLikelihoods(answer, prompts);
    ASSERT_FALSE(read.ok()) << answer;
    EXPECT_THAT(read.failure().message, HasSubstr("echo with logprobs")) << answer;
  }
  EXPECT_FALSE(ReadTokens(R"({"tokens": ["a"]})").ok());
  EXPECT_THAT(*ReadTokens(R"({"tokens": [1, 2]})"), ElementsAre(1, 2));
}

std::vector<Likelihood> Sums(const std::vector<double>& sums) {
  std::vector<Likelihood> likelihoods;
  for (const double sum : sums) likelihoods.push_back({.logprobs = {sum / 2, sum / 2}});
  return likelihoods;
}

TEST(Figures, MeansHaveASampleError) {
  const Figure mean = MeanOf("m", {1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(mean.value, 2.5);
  EXPECT_DOUBLE_EQ(mean.error, std::sqrt(5.0 / 3 / 4));
  EXPECT_LT(MeanOf("m", {1}).error, 0);
  const Figure perplexity = PerplexityOf("p", {1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(perplexity.value, std::exp(2.5));
  EXPECT_DOUBLE_EQ(perplexity.error, std::exp(2.5) * mean.error);
}

TEST(Figures, AreComputedForEachTask) {
  using Task = EvalOptions::Task;
  const std::vector<std::vector<Likelihood>> words = {{{.logprobs = {-1, -3}, .greedy = true}},
                                                      {{.logprobs = {-2}, .greedy = false}}};
  const auto passages = FiguresOf(Task::kLastWord, std::vector<Sample>(2), words);
  ASSERT_EQ(passages.size(), 3u);
  EXPECT_DOUBLE_EQ(passages[0].value, 0.5);
  EXPECT_DOUBLE_EQ(passages[1].value, std::exp(3)) << "of words";
  EXPECT_DOUBLE_EQ(passages[2].value, std::exp(2)) << "of tokens";
  EXPECT_DOUBLE_EQ(FiguresOf(Task::kPerplexity, std::vector<Sample>(2), words)[0].value, std::exp(2));

  const Sample question{.prompts = std::vector<Prompt>(3), .right = 1, .answer_sizes = {2, 8, 4}};
  const auto choices = FiguresOf(Task::kChoices, {question, question, question, question},
                                 {Sums({-4, -8, -8}), Sums({-9, -8, -12}), Sums({-8, -8, -9}), Sums({-1, -9, -7})});
  EXPECT_DOUBLE_EQ(choices[0].value, 0.25);
  EXPECT_DOUBLE_EQ(choices[1].value, 0.75) << "longer ones have more to be unlikely with";
}

TEST(Figures, ArePrintedAsTextAndAsJson) {
  EXPECT_EQ(FiguresTable({{"accuracy", 0.5, 0.25}, {"perplexity", 12, -1}}),
            "accuracy                  0.50000 +- 0.25000\nperplexity               12.00000\n");
  const EvalOptions options{.path = "text.txt", .context = 64, .stride = 32};
  const Json told = Json::parse(FiguresJson(options, "m", 3, 99, {{"perplexity", 12, 0.5}, {"other", 1, -1}}));
  const Json expected = {{"task", "perplexity"}, {"file", "text.txt"},     {"model", "m"},
                         {"samples", 3},         {"tokens", 99},           {"context", 64},
                         {"stride", 32},         {"perplexity", 12.0},     {"perplexity_stderr", 0.5},
                         {"other", 1.0},         {"other_stderr", nullptr}};
  EXPECT_EQ(told, expected);
}

}  // namespace
}  // namespace ringside::client
