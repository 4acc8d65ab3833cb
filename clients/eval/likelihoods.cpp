#include "clients/eval/likelihoods.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/json/json_tree.h"

namespace ringside::client {
namespace {

using Json = nlohmann::json;

/// Range [begin, end) of the scored tokens, among those in the server's answer.
std::pair<size_t, size_t> Counted(const Prompt& prompt, const Json& offsets, size_t tokens) {
  if (!prompt.ids.empty()) return {prompt.from, std::min(prompt.ids.size(), tokens)};
  // A token ends where the next one begins; tokens after the prompt are the server's answer.
  const size_t characters = CountCharacters(prompt.text);
  size_t end = 0;
  while (end < tokens && offsets.at(end).get<size_t>() < characters) ++end;
  size_t begin = 0;
  while (begin + 1 < end && offsets.at(begin + 1).get<size_t>() <= prompt.from) ++begin;
  return {begin, end};
}

/// Throws if a member is missing or has the wrong type.
Likelihood ReadOne(const Prompt& prompt, const Json& logprobs) {
  const Json& told = logprobs.at("token_logprobs");
  const Json& tops = logprobs.at("top_logprobs");
  const auto [begin, end] =
      Counted(prompt, prompt.ids.empty() ? logprobs.at("text_offset") : Json(), std::min(told.size(), tops.size()));
  Likelihood likelihood;
  for (size_t i = begin; i < end; ++i) {
    const double logprob = told.at(i).get<double>();
    likelihood.logprobs.push_back(logprob);
    for (const Json& other : tops.at(i)) likelihood.greedy &= other.get<double>() <= logprob;
  }
  return likelihood;
}

}  // namespace

double Likelihood::sum() const { return std::accumulate(logprobs.begin(), logprobs.end(), 0.0); }

size_t CountCharacters(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string LikelihoodRequest(const std::string& model, const std::vector<Prompt>& prompts) {
  Json asked = Json::array();
  for (const Prompt& prompt : prompts) asked.push_back(prompt.ids.empty() ? Json(prompt.text) : Json(prompt.ids));
  // vLLM would prepend special tokens, and so would our server.
  return Json{{"model", model},  {"prompt", asked}, {"echo", true},    {"add_special_tokens", false},
              {"max_tokens", 0}, {"logprobs", 1},   {"temperature", 0}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Outcome<std::vector<Likelihood>> ReadLikelihoods(const std::string& answer, const std::vector<Prompt>& prompts) {
  std::vector<Likelihood> likelihoods(prompts.size());
  try {
    const Json choices = ParseJsonTree(answer, kLargeJson).at("choices");
    for (const Json& choice : choices) {
      const auto index = choice.at("index").get<size_t>();
      likelihoods.at(index) = ReadOne(prompts.at(index), choice.at("logprobs"));
    }
  } catch (const std::exception&) {
    likelihoods.clear();
  }
  const bool told = !likelihoods.empty() &&
                    std::ranges::none_of(likelihoods, [](const Likelihood& one) { return one.logprobs.empty(); });
  if (told) return likelihoods;
  return Failure{
      "The server returns no log probabilities of a prompt: its /completions must support echo with logprobs."};
}

std::string TokenizeRequest(const std::string& model, const std::string& text) {
  // vLLM calls it a prompt and would prepend special tokens; llama.cpp calls it the content.
  return Json{{"model", model}, {"prompt", text}, {"content", text}, {"add_special_tokens", false}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

Outcome<std::vector<int64_t>> ReadTokens(const std::string& answer) {
  try {
    return ParseJsonTree(answer, kLargeJson).at("tokens").get<std::vector<int64_t>>();
  } catch (const std::exception&) {
    return Failure{"The server's answer to /tokenize is not a list of tokens."};
  }
}

}  // namespace ringside::client
