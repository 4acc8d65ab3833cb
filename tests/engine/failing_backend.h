// A backend over the CPU's whose device fails for good when it is told to, as a GPU does: calls go on, results mean
// nothing, status() says so. It also counts what is allocated.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.h"

namespace ringside {

class FailingBackend : public Backend {
 public:
  explicit FailingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  /// From the n-th Synchronize from now on; 0 = now.
  void FailAfter(int64_t n) { left_ = n; }
  int64_t allocations() const { return allocations_; }

  Status status() const override {
    return left_ == 0 ? Unavailable("the device has failed: an injected error") : Status::Ok();
  }
  Result<Buffer> Allocate(size_t bytes) override {
    ++allocations_;
    return inner_->Allocate(bytes);
  }
  void Synchronize() override {
    inner_->Synchronize();
    if (left_ > 0) --left_;
  }

  void Free(void* data, size_t bytes) override { inner_->Free(data, bytes); }
  void CopyToDevice(void* to, const void* from, size_t bytes) override { inner_->CopyToDevice(to, from, bytes); }
  void CopyToHost(void* to, const void* from, size_t bytes) override { inner_->CopyToHost(to, from, bytes); }
  void CopyOnDevice(void* to, const void* from, size_t bytes) override { inner_->CopyOnDevice(to, from, bytes); }
  CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) override {
    return inner_->SaveSlab(shape, slab, runs);
  }
  CopyTicket LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) override {
    return inner_->LoadSlab(shape, slab, runs);
  }
  std::string Describe() const override { return "failing " + inner_->Describe(); }
  Result<Weight> LoadWeight(const HostTensor& host) override { return inner_->LoadWeight(host); }
  void Embed(const Weight& t, std::span<const int32_t> ids, Tensor y) override { inner_->Embed(t, ids, y); }
  void AddPositions(const Weight& t, std::span<const int64_t> p, Tensor y) override { inner_->AddPositions(t, p, y); }
  void RmsNorm(Tensor x, const float* w, float eps, Tensor y) override { inner_->RmsNorm(x, w, eps, y); }
  void RmsNormHeads(Tensor x, int64_t heads, const float* w, float eps) override {
    inner_->RmsNormHeads(x, heads, w, eps);
  }
  void LayerNorm(Tensor x, const float* w, const float* b, float eps, Tensor y) override {
    inner_->LayerNorm(x, w, b, eps, y);
  }
  void Linear(const LinearArgs& args) override { inner_->Linear(args); }
  void Attention(const AttentionArgs& args) override { inner_->Attention(args); }
  void SiluMultiply(Tensor x, Tensor y) override { inner_->SiluMultiply(x, y); }
  void Gelu(Tensor x, bool tanh_approximation) override { inner_->Gelu(x, tanh_approximation); }
  void GatherRows(Tensor x, std::span<const int64_t> rows, Tensor y) override { inner_->GatherRows(x, rows, y); }
  void ChooseTokens(Tensor logits, std::span<const TokenChoice> choices, std::span<ChosenToken> chosen) override {
    inner_->ChooseTokens(logits, choices, chosen);
  }

 private:
  std::unique_ptr<Backend> inner_;
  std::atomic<int64_t> left_{-1};
  std::atomic<int64_t> allocations_{0};
};

}  // namespace ringside
