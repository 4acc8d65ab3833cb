// An evaluation's passages and questions from files, and windows over a text. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clients/eval/likelihoods.h"

namespace ringside::client {

/// The prompts that belong to one sample and share a request.
struct Sample {
  std::vector<Prompt> prompts;       // for a question: one prompt per answer
  size_t right = 0;                  // index into prompts
  std::vector<size_t> answer_sizes;  // in characters
};

/// Windows over a text's tokens, each advanced by `stride`; a window scores only tokens that no earlier window had:
/// https://huggingface.co/docs/transformers/perplexity. `prefix` precedes each; without one a window's first token is
/// not scored, because it has no context. `context` is the total length. REQUIRES: `stride` and the prefix fit in it.
std::vector<Sample> SlidingWindows(const std::vector<int64_t>& text, const std::vector<int64_t>& prefix, size_t context,
                                   size_t stride);
/// JSON lines {"text": ...}: the last word of each is scored, with the preceding blank. Trailing blanks are ignored.
Outcome<std::vector<Sample>> ReadPassages(std::string_view lines, const std::string& prefix);
/// JSON lines {"question": ..., "choices": [...], "answer": ...}; "answer" is the index of the right choice, from 0, or
/// its text. A choice is appended to the question after a blank.
Outcome<std::vector<Sample>> ReadQuestions(std::string_view lines, const std::string& prefix);

}  // namespace ringside::client
