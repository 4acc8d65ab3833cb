// What the likelihoods of an evaluation's samples come to. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/eval/eval.h"
#include "clients/eval/samples.h"

namespace ringside::client {

/// A figure and its standard error; an error below 0 is none.
struct Figure {
  std::string name;
  double value = 0, error = -1;
};

/// The mean of independent values and its standard error, that of the sample (n - 1 below).
Figure MeanOf(const std::string& name, const std::vector<double>& values);
/// exp(mean) of losses; its error is to first order that of the mean times it.
Figure PerplexityOf(const std::string& name, const std::vector<double>& losses);

/// Of a task, by sample. Perplexity: of tokens. Last word: how often the likeliest tokens are the word, its perplexity
/// (of whole words, as lm-evaluation-harness has it for LAMBADA) and that of its tokens. Choices: how often the right
/// one is the likeliest (accuracy, acc) and is it by its length in characters (accuracy_normalised, acc_norm); the
/// first of equals is.
std::vector<Figure> FiguresOf(EvalOptions::Task task, const std::vector<Sample>& samples,
                              const std::vector<std::vector<Likelihood>>& likelihoods);

/// A line each; or {task, file, model, samples, tokens, NAME, NAME_stderr, ...}.
std::string FiguresTable(const std::vector<Figure>& figures);
std::string FiguresJson(const EvalOptions& options, const std::string& model, size_t samples, size_t tokens,
                        const std::vector<Figure>& figures);

}  // namespace ringside::client
