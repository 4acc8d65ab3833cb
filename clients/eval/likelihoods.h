// Likelihoods of prompts from a server: one completions request, and its answer. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/wire/outcome.h"

namespace ringside::client {

/// A text, or token ids, and the start of the scored part: everything before it is context.
struct Prompt {
  std::string text = {};
  std::vector<int64_t> ids = {};  // instead of the text
  size_t from = 0;                // character (code point) offset in the text, or index into the ids; not 0
};

/// Likelihood of the scored tokens.
struct Likelihood {
  std::vector<double> logprobs;  // natural logarithms
  bool greedy = true;            // whether each was the likeliest token

  double sum() const;
};

/// The body of POST /v1/completions for the likelihoods of some prompts, all texts or all ids.
std::string LikelihoodRequest(const std::string& model, const std::vector<Prompt>& prompts);
/// Parses the answer, in the order of the prompts. A token that straddles the border is scored: the likelihood of its
/// second part alone is unknown.
Outcome<std::vector<Likelihood>> ReadLikelihoods(const std::string& answer, const std::vector<Prompt>& prompts);

/// The body of POST /tokenize, with the field names of every server that has it, and the ids from its answer.
std::string TokenizeRequest(const std::string& model, const std::string& text);
Outcome<std::vector<int64_t>> ReadTokens(const std::string& answer);

/// Number of code points of UTF-8 text.
size_t CountCharacters(const std::string& text);

}  // namespace ringside::client
