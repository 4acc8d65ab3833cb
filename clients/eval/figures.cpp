#include "clients/eval/figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

namespace ringside::client {
namespace {

std::vector<double> LossesOf(const std::vector<std::vector<Likelihood>>& likelihoods) {
  std::vector<double> losses;
  for (const auto& sample : likelihoods) {
    for (const Likelihood& one : sample) {
      for (const double logprob : one.logprobs) losses.push_back(-logprob);
    }
  }
  return losses;
}

std::vector<Figure> LastWordFigures(const std::vector<std::vector<Likelihood>>& likelihoods) {
  std::vector<double> right, losses;
  for (const auto& sample : likelihoods) {
    right.push_back(sample.front().greedy ? 1 : 0);
    losses.push_back(-sample.front().sum());
  }
  return {MeanOf("accuracy", right), PerplexityOf("perplexity", losses),
          PerplexityOf("token_perplexity", LossesOf(likelihoods))};
}

std::vector<Figure> ChoicesFigures(const std::vector<Sample>& samples,
                                   const std::vector<std::vector<Likelihood>>& likelihoods) {
  std::vector<double> right, right_by_length;
  for (size_t i = 0; i < samples.size(); ++i) {
    std::vector<double> sums, by_length;
    for (size_t choice = 0; choice < likelihoods[i].size(); ++choice) {
      sums.push_back(likelihoods[i][choice].sum());
      by_length.push_back(sums.back() / static_cast<double>(samples[i].answer_sizes[choice]));
    }
    const auto is_right = [&](const std::vector<double>& scores) {
      const auto best = static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
      return best == samples[i].right ? 1.0 : 0.0;
    };
    right.push_back(is_right(sums));
    right_by_length.push_back(is_right(by_length));
  }
  return {MeanOf("accuracy", right), MeanOf("accuracy_normalised", right_by_length)};
}

const char* NameOf(EvalOptions::Task task) {
  switch (task) {
    case EvalOptions::Task::kPerplexity:
      return "perplexity";
    case EvalOptions::Task::kLastWord:
      return "last-word";
    case EvalOptions::Task::kChoices:
      return "choices";
  }
  return "";
}

}  // namespace

Figure MeanOf(const std::string& name, const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() < 2) return {name, mean};
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {name, mean, std::sqrt(squares / (count - 1) / count)};
}

Figure PerplexityOf(const std::string& name, const std::vector<double>& losses) {
  Figure figure = MeanOf(name, losses);
  figure.value = std::exp(figure.value);
  if (figure.error >= 0) figure.error *= figure.value;
  return figure;
}

std::vector<Figure> FiguresOf(EvalOptions::Task task, const std::vector<Sample>& samples,
                              const std::vector<std::vector<Likelihood>>& likelihoods) {
  switch (task) {
    case EvalOptions::Task::kPerplexity:
      return {PerplexityOf("perplexity", LossesOf(likelihoods))};
    case EvalOptions::Task::kLastWord:
      return LastWordFigures(likelihoods);
    case EvalOptions::Task::kChoices:
      return ChoicesFigures(samples, likelihoods);
  }
  return {};
}

std::string FiguresTable(const std::vector<Figure>& figures) {
  std::string table;
  for (const Figure& figure : figures) {
    char line[128];
    if (figure.error < 0) {
      std::snprintf(line, sizeof line, "%-20s %12.5f\n", figure.name.c_str(), figure.value);
    } else {
      std::snprintf(line, sizeof line, "%-20s %12.5f +- %.5f\n", figure.name.c_str(), figure.value, figure.error);
    }
    table += line;
  }
  return table;
}

std::string FiguresJson(const EvalOptions& options, const std::string& model, size_t samples, size_t tokens,
                        const std::vector<Figure>& figures) {
  nlohmann::ordered_json json = {{"task", NameOf(options.task)},
                                 {"file", options.path},
                                 {"model", model},
                                 {"samples", samples},
                                 {"tokens", tokens}};
  if (options.task == EvalOptions::Task::kPerplexity) {
    json["context"] = options.context;
    json["stride"] = options.stride > 0 ? options.stride : options.context / 2;
  }
  for (const Figure& figure : figures) {
    json[figure.name] = figure.value;
    nlohmann::ordered_json& error = json[figure.name + "_stderr"];  // null = none
    if (figure.error >= 0) error = figure.error;
  }
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ringside::client
