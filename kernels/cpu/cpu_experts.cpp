// Mixture-of-experts layers on the CPU: routes each row, then computes one expert after another with all its rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/cpu/cpu_backend.h"

namespace ringside::cpu {
namespace {

/// Indices of the `count` highest values, ties to the lower index.
std::vector<size_t> Highest(std::span<const float> values, size_t count) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](size_t a, size_t b) { return values[a] > values[b] || (values[a] == values[b] && a < b); });
  order.resize(count);
  return order;
}

/// Excludes the experts of all groups but the best.
void MaskGroups(const RouterTraits& traits, std::vector<float>* choices) {
  const size_t groups = static_cast<size_t>(traits.groups), size = choices->size() / groups;
  std::vector<float> sums;
  for (size_t g = 0; g < groups; ++g) {
    const auto group = std::span(*choices).subspan(g * size, size);
    float sum = 0;
    for (const size_t e : Highest(group, std::min<size_t>(size, traits.group_highest ? 1 : 2))) sum += group[e];
    sums.push_back(sum);
  }
  const std::vector<size_t> best = Highest(sums, static_cast<size_t>(traits.groups_used));
  for (size_t e = 0; e < choices->size(); ++e) {
    if (std::ranges::find(best, e / size) == best.end()) (*choices)[e] = -std::numeric_limits<float>::infinity();
  }
}

/// weights[e] of a row with these router logits; 0 if expert e is not selected.
void Route(std::span<const float> logits, const ExpertsArgs& args, std::span<float> weights) {
  const size_t routed = logits.size() - (args.shared ? 1 : 0), top_k = static_cast<size_t>(args.top_k);
  const std::vector<size_t> order = Highest(logits.first(routed), top_k);
  std::ranges::fill(weights, 0.0f);
  const float largest = logits[order.front()];
  float sum = 0;
  for (size_t e = 0; e < routed; ++e) {
    const size_t expert = args.normalised ? (e < top_k ? order[e] : routed) : e;
    if (expert < routed) sum += std::exp(logits[expert] - largest);
  }
  for (size_t i = 0; i < top_k; ++i) weights[order[i]] = std::exp(logits[order[i]] - largest) / sum;
  if (args.shared) weights[routed] = 1.0f / (1.0f + std::exp(-logits[routed]));
}

/// As Route, for routers with traits.
void RouteByTraits(std::span<const float> logits, const ExpertsArgs& args, std::span<float> weights) {
  const RouterTraits& traits = args.traits;
  const size_t routed = logits.size() - (args.shared ? 1 : 0), top_k = static_cast<size_t>(args.top_k);
  std::vector<float> scores(logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(routed));
  if (traits.sigmoid) {
    for (float& score : scores) score = 1.0f / (1.0f + std::exp(-score));
  } else {
    const float largest = *std::ranges::max_element(scores);
    float sum = 0;
    for (float& score : scores) sum += score = std::exp(score - largest);
    for (float& score : scores) score /= sum;
  }
  std::vector<float> choices = scores;
  for (size_t e = 0; traits.correction != nullptr && e < routed; ++e) choices[e] += traits.correction[e];
  if (traits.groups_used < traits.groups) MaskGroups(traits, &choices);
  const std::vector<size_t> order = Highest(choices, top_k);
  float sum = 1e-20f;  // all sigmoids can be zero
  for (const size_t e : order) sum += scores[e];
  const float factor = args.normalised ? traits.scale / sum : traits.scale;
  std::ranges::fill(weights, 0.0f);
  for (const size_t e : order) weights[e] = scores[e] * factor * (traits.scales != nullptr ? traits.scales[e] : 1.0f);
  if (args.shared) weights[routed] = 1.0f / (1.0f + std::exp(-logits[routed]));
}

Tensor View(std::vector<float>* memory, int64_t rows, int64_t cols) {
  memory->resize(std::max(memory->size(), static_cast<size_t>(rows * cols)));
  return {DType::kF32, memory->data(), rows, cols, cols};
}

}  // namespace

void CpuBackend::Experts(const ExpertsArgs& args) {
  const Tensor &x = args.x, &y = args.y, &router = args.router;
  CHECK(x.dtype == DType::kF32 && y.dtype == DType::kF32 && router.dtype == DType::kF32);
  CHECK(x.rows == y.rows && x.cols == y.cols && x.rows == router.rows);
  CHECK_EQ(router.cols, static_cast<int64_t>(args.experts.size()));
  CHECK(args.top_k > 0 && args.top_k <= router.cols - (args.shared ? 1 : 0));
  const auto experts = static_cast<size_t>(router.cols);
  routed_.resize(static_cast<size_t>(x.rows) * experts);
  for (int64_t r = 0; r < x.rows; ++r) {
    const auto route = args.traits.plain() ? Route : RouteByTraits;
    route({router.f32_row(r), experts}, args, std::span(routed_).subspan(static_cast<size_t>(r) * experts, experts));
  }
  for (int64_t r = 0; !args.accumulate && r < y.rows; ++r) std::fill_n(y.f32_row(r), y.cols, 0.0f);
  for (int64_t e = 0; e < router.cols; ++e) {
    expert_rows_.clear(), expert_weights_.clear();
    for (int64_t r = 0; r < x.rows; ++r) {
      const float weight = routed_[static_cast<size_t>(r * router.cols + e)];
      if (weight == 0) continue;
      expert_rows_.push_back(r), expert_weights_.push_back(weight);
    }
    if (expert_rows_.empty()) continue;
    const Expert& expert = args.experts[static_cast<size_t>(e)];
    const auto rows = static_cast<int64_t>(expert_rows_.size()), inner = expert.out->cols;
    const bool gated = expert.in.front().rows != inner || expert.in.size() > 1;
    const Tensor gathered = View(&expert_x_, rows, x.cols), in = View(&expert_in_, rows, gated ? 2 * inner : inner),
                 mid = gated ? View(&expert_mid_, rows, inner) : in, out = View(&expert_out_, rows, y.cols);
    GatherRows(x, expert_rows_, gathered);
    const Weight* up[] = {&expert.in.front(), &expert.in.back()};
    Linear({.x = gathered, .weights = std::span(up).first(expert.in.size()), .bias = expert.in_bias, .y = in});
    if (gated)
      MultiplyActivated(in, args.activation, mid);
    else
      Activate(mid, args.activation);
    const Weight* down[] = {expert.out};
    Linear({.x = mid, .weights = down, .bias = expert.out_bias, .y = out});
    EachRow(rows, y.cols, [&](int64_t i) {
      float* to = y.f32_row(expert_rows_[static_cast<size_t>(i)]);
      const float weight = expert_weights_[static_cast<size_t>(i)], *from = out.f32_row(i);
      for (int64_t c = 0; c < y.cols; ++c) to[c] += weight * from[c];
    });
  }
}

}  // namespace ringside::cpu
