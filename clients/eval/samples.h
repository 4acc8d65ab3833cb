// The passages and questions of an evaluation, as files have them, and the windows of a text. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clients/eval/likelihoods.h"

namespace ringside::client {

/// The prompts of one request, which belong together.
struct Sample {
  std::vector<Prompt> prompts;       // of a question: one with each of the answers
  size_t right = 0;                  // of these
  std::vector<size_t> answer_sizes;  // characters
};

/// Windows over a text's tokens, each `stride` further on than the one before, in which those count that no window
/// before it had: https://huggingface.co/docs/transformers/perplexity. `prefix` goes before each; without one a
/// window's first token does not count, since nothing precedes it. `context` tokens in all; `stride` and the prefix fit
/// in it.
std::vector<Sample> SlidingWindows(const std::vector<int64_t>& text, const std::vector<int64_t>& prefix, size_t context,
                                   size_t stride);
/// JSON lines {"text": ...}: what counts is the last word of each, with the blank before it. Blanks at the end are no
/// part of it.
Outcome<std::vector<Sample>> ReadPassages(std::string_view lines, const std::string& prefix);
/// JSON lines {"question": ..., "choices": [...], "answer": ...}, the last one the number of the right choice, from 0,
/// or its text. A choice is said behind the question and a blank.
Outcome<std::vector<Sample>> ReadQuestions(std::string_view lines, const std::string& prefix);

}  // namespace ringside::client
