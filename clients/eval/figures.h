// Statistics over the likelihoods of an evaluation's samples. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/eval/eval.h"
#include "clients/eval/samples.h"

namespace ringside::client {

/// A figure and its standard error; a negative error means none.
struct Figure {
  std::string name;
  double value = 0, error = -1;
};

/// The mean of independent values and the standard error of the mean (with n - 1).
Figure MeanOf(const std::string& name, const std::vector<double>& values);
/// Perplexity, exp(mean loss), with its delta-method standard error.
Figure PerplexityOf(const std::string& name, const std::vector<double>& losses);

/// Figures of a task over its samples. Perplexity: per token. Last word: the fraction of samples whose word is the
/// greedy prediction, and the perplexities per whole word (lm-evaluation-harness's LAMBADA metric) and per token.
/// Choices: the fraction of samples whose right answer is the likeliest (accuracy, acc), and the likeliest per
/// character (accuracy_normalised, acc_norm); ties go to the first.
std::vector<Figure> FiguresOf(EvalOptions::Task task, const std::vector<Sample>& samples,
                              const std::vector<std::vector<Likelihood>>& likelihoods);

/// One line per figure; or {task, file, model, samples, tokens, NAME, NAME_stderr, ...}.
std::string FiguresTable(const std::vector<Figure>& figures);
std::string FiguresJson(const EvalOptions& options, const std::string& model, size_t samples, size_t tokens,
                        const std::vector<Figure>& figures);

}  // namespace ringside::client
