// Mixture-of-experts layers on the CPU: routes each row, then computes one expert after another with all its rows.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cpu/cpu_backend.h"

namespace ringside::cpu {
namespace {

/// weights[e] of a row with these router logits; 0 if expert e is not selected.
void Route(std::span<const float> logits, const ExpertsArgs& args, std::span<float> weights) {
  const size_t routed = logits.size() - (args.shared ? 1 : 0), top_k = static_cast<size_t>(args.top_k);
  std::vector<size_t> order(routed);
  std::iota(order.begin(), order.end(), size_t{0});
  std::partial_sort(order.begin(), order.begin() + args.top_k, order.end(),
                    [&](size_t a, size_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
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

Tensor View(std::vector<float>* memory, int64_t rows, int64_t cols) {
  memory->resize(std::max(memory->size(), static_cast<size_t>(rows * cols)));
  return {DType::kF32, memory->data(), rows, cols, cols};
}

}  // namespace

void CpuBackend::FindRows(const ExpertsArgs& args, int64_t expert) {
  expert_rows_.clear(), expert_weights_.clear();
  for (int64_t r = 0; r < args.x.rows; ++r) {
    const float weight = routed_[static_cast<size_t>(r * args.router.cols + expert)];
    if (weight == 0) continue;
    expert_rows_.push_back(r), expert_weights_.push_back(weight);
  }
}

void CpuBackend::Experts(const ExpertsArgs& args) {
  const Tensor &x = args.x, &y = args.y, &router = args.router;
  CHECK(x.dtype == DType::kF32 && y.dtype == DType::kF32 && router.dtype == DType::kF32);
  CHECK(x.rows == y.rows && x.cols == y.cols && x.rows == router.rows);
  CHECK_EQ(router.cols, static_cast<int64_t>(args.experts.size()));
  CHECK(args.top_k > 0 && args.top_k <= router.cols - (args.shared ? 1 : 0));
  const auto experts = static_cast<size_t>(router.cols);
  routed_.resize(static_cast<size_t>(x.rows) * experts);
  for (int64_t r = 0; r < x.rows; ++r) {
    Route({router.f32_row(r), experts}, args, std::span(routed_).subspan(static_cast<size_t>(r) * experts, experts));
  }
  for (int64_t e = 0; e < router.cols; ++e) {
    FindRows(args, e);
    if (expert_rows_.empty()) continue;
    const Expert& expert = args.experts[static_cast<size_t>(e)];
    const auto rows = static_cast<int64_t>(expert_rows_.size()), inner = expert.out->cols;
    const Tensor gathered = View(&expert_x_, rows, x.cols), in = View(&expert_in_, rows, 2 * inner),
                 mid = View(&expert_mid_, rows, inner), out = View(&expert_out_, rows, y.cols);
    GatherRows(x, expert_rows_, gathered);
    const Weight* up[] = {&expert.in.front(), &expert.in.back()};
    Linear({.x = gathered, .weights = std::span(up).first(expert.in.size()), .bias = expert.in_bias, .y = in});
    MultiplyActivated(in, args.activation, mid);
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
