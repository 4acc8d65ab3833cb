// What a server says of the likelihood of prompts: one request to its completions face, and its answer. Plain values
// and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/wire/outcome.h"

namespace ringside::client {

/// A text, or token ids, and where that begins which counts: what is before it is context.
struct Prompt {
  std::string text = {};
  std::vector<int64_t> ids = {};  // in place of the text
  size_t from = 0;                // character (code point) of the text, or place among the ids; not 0
};

/// Of the tokens that count.
struct Likelihood {
  std::vector<double> logprobs;  // natural logarithms
  bool greedy = true;            // each was the likeliest one

  double sum() const;
};

/// The body of POST /v1/completions that asks for the likelihood of some prompts, all texts or all ids.
std::string LikelihoodRequest(const std::string& model, const std::vector<Prompt>& prompts);
/// The answer to it, in the order of the prompts. A token that begins before the border and ends behind it counts:
/// there is no other way to say how likely its end is.
Outcome<std::vector<Likelihood>> ReadLikelihoods(const std::string& answer, const std::vector<Prompt>& prompts);

/// The body of POST /tokenize, in the words of every server that has it, and the ids of its answer.
std::string TokenizeRequest(const std::string& model, const std::string& text);
Outcome<std::vector<int64_t>> ReadTokens(const std::string& answer);

/// Code points of UTF-8.
size_t CountCharacters(const std::string& text);

}  // namespace ringside::client
