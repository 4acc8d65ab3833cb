// A CPU backend that rounds weights and activations to 16 bits, as a GPU does: the residual stream and logits stay
// float32. The remaining differences are summation order and the rounding inside attention.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "kernels/formats/file_formats.h"
#include "kernels/formats/half.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {

class RoundedNumbers final : public ForwardingBackend {
 public:
  RoundedNumbers(std::unique_ptr<Backend> inner, DType dtype) : ForwardingBackend(std::move(inner)), dtype_(dtype) {}

  Result<Weight> LoadWeight(const HostTensor& host) override {
    std::vector<float> values(static_cast<size_t>(host.rows * host.cols));
    for (int64_t r = 0; r < host.rows; ++r) ReadFileRow(host, r, &values[static_cast<size_t>(r * host.cols)]);
    Round({DType::kF32, values.data(), host.rows, host.cols, host.cols});
    ASSIGN_OR_RETURN(Weight weight, ForwardingBackend::LoadWeight({DType::kF32, host.rows, host.cols,
                                                                   std::as_bytes(std::span(values)), host.table}));
    if (host.table) tables_.insert(weight.data.data());
    return weight;
  }
  void RmsNorm(Tensor x, const float* w, float eps, Tensor y) override {
    ForwardingBackend::RmsNorm(x, w, eps, y);
    Round(y);
  }
  void RmsNormHeads(Tensor x, int64_t heads, const float* w, float eps) override {
    ForwardingBackend::RmsNormHeads(x, heads, w, eps);
    Round(x);
  }
  void LayerNorm(Tensor x, const float* w, const float* b, float eps, Tensor y) override {
    ForwardingBackend::LayerNorm(x, w, b, eps, y);
    Round(y);
  }
  void Linear(const LinearArgs& args) override {
    ForwardingBackend::Linear(args);
    const bool logits = tables_.contains(args.weights[0]->data.data());
    if (!args.accumulate && !logits) Round(args.y);
  }
  void Attention(const AttentionArgs& args) override {
    ForwardingBackend::Attention(args);
    Round(args.out);
  }
  void MultiplyActivated(Tensor x, Activation activation, Tensor y) override {
    ForwardingBackend::MultiplyActivated(x, activation, y);
    Round(y);
  }
  void Activate(Tensor x, Activation activation) override {
    ForwardingBackend::Activate(x, activation);
    Round(x);
  }

 private:
  void Round(Tensor t) const {
    for (int64_t r = 0; r < t.rows; ++r) {
      float* row = static_cast<float*>(t.data) + r * t.stride;
      for (int64_t c = 0; c < t.cols; ++c) {
        row[c] = dtype_ == DType::kF16 ? HalfToFloat(FloatToHalf(row[c])) : Bf16ToFloat(FloatToBf16(row[c]));
      }
    }
  }

  const DType dtype_;
  std::set<const void*> tables_;
};

}  // namespace ringside
