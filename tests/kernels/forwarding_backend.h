// A backend decorator that forwards every call: the base of those that change some.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/backend.h"

namespace ringside {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  bool has_device() const { return inner_ != nullptr; }
  void MakeCurrent() override { inner_->MakeCurrent(); }
  Result<Buffer> Allocate(size_t bytes) override { return inner_->Allocate(bytes); }
  void Free(void* data, size_t bytes) override { inner_->Free(data, bytes); }
  int64_t page_bytes(int64_t slab_bytes) const override { return inner_->page_bytes(slab_bytes); }
  Result<Buffer> Reserve(size_t bytes) override { return inner_->Reserve(bytes); }
  Status Commit(void* data, size_t bytes) override { return inner_->Commit(data, bytes); }
  bool Committed(const void* data, size_t bytes, int64_t timeout_us) override {
    return inner_->Committed(data, bytes, timeout_us);
  }
  void Decommit(void* data, size_t bytes) override { inner_->Decommit(data, bytes); }
  Status Share(void* to, const void* from, size_t bytes) override { return inner_->Share(to, from, bytes); }
  void Unshare(void* data, size_t bytes) override { inner_->Unshare(data, bytes); }
  void CopyToDevice(void* to, const void* from, size_t bytes) override { inner_->CopyToDevice(to, from, bytes); }
  void CopyToHost(void* to, const void* from, size_t bytes) override { inner_->CopyToHost(to, from, bytes); }
  void CopyOnDevice(void* to, const void* from, size_t bytes) override { inner_->CopyOnDevice(to, from, bytes); }
  void Flush() override { inner_->Flush(); }
  void Synchronize() override { inner_->Synchronize(); }
  uint64_t Submit() override { return inner_->Submit(); }
  void WaitFor(uint64_t submission) override { inner_->WaitFor(submission); }
  bool runs_ahead() const override { return inner_->runs_ahead(); }
  DType activation_dtype() const override { return inner_->activation_dtype(); }
  DType weight_dtype() const override { return inner_->weight_dtype(); }
  bool multiplies_in_e4m3() const override { return inner_->multiplies_in_e4m3(); }
  int64_t saturating_rows() const override { return inner_->saturating_rows(); }
  std::optional<size_t> free_bytes() const override { return inner_->free_bytes(); }
  Status status() const override { return inner_->status(); }
  CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) override {
    return inner_->SaveSlab(shape, slab, runs);
  }
  CopyTicket LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) override {
    return inner_->LoadSlab(shape, slab, runs);
  }
  bool CopyDone(CopyTicket ticket) override { return inner_->CopyDone(ticket); }
  void WaitForCopy(CopyTicket ticket) override { inner_->WaitForCopy(ticket); }
  bool PinHost(void* data, size_t bytes) override { return inner_->PinHost(data, bytes); }
  int64_t slab_chunk_bytes() const override { return inner_->slab_chunk_bytes(); }
  std::string Describe() const override { return inner_->Describe(); }
  Result<Weight> LoadWeight(const HostTensor& host) override { return inner_->LoadWeight(host); }
  Result<Buffer> PackExperts(std::span<const Expert> experts) override { return inner_->PackExperts(experts); }
  Result<Buffer> PackLowRank(std::span<const std::span<const LowRank>> adapters) override {
    return inner_->PackLowRank(adapters);
  }
  void Embed(const Weight& t, std::span<const int32_t> ids, float scale, Tensor y) override {
    inner_->Embed(t, ids, scale, y);
  }
  void AddPositions(const Weight& t, std::span<const int64_t> p, Tensor y) override { inner_->AddPositions(t, p, y); }
  void RmsNorm(Tensor x, const float* w, float eps, Tensor y) override { inner_->RmsNorm(x, w, eps, y); }
  void RmsNormHeads(Tensor x, int64_t heads, const float* w, float eps) override {
    inner_->RmsNormHeads(x, heads, w, eps);
  }
  void LayerNorm(Tensor x, const float* w, const float* b, float eps, Tensor y) override {
    inner_->LayerNorm(x, w, b, eps, y);
  }
  void Linear(const LinearArgs& args) override { inner_->Linear(args); }
  void Scale(Tensor x, float factor) override { inner_->Scale(x, factor); }
  void ScaleColumns(Tensor x, const float* factors) override { inner_->ScaleColumns(x, factors); }
  void AddScaledRows(Tensor x, Tensor factors, Tensor y) override { inner_->AddScaledRows(x, factors, y); }
  void MatchMagnitude(Tensor like, Tensor x) override { inner_->MatchMagnitude(like, x); }
  void Sparsify(Tensor x, float deviations) override { inner_->Sparsify(x, deviations); }
  void LinearHeads(const HeadsArgs& args) override { inner_->LinearHeads(args); }
  void AddLowRank(const LowRankArgs& args) override { inner_->AddLowRank(args); }
  void Attention(const AttentionArgs& args) override { inner_->Attention(args); }
  void MultiplyActivated(Tensor x, Activation activation, Tensor y) override {
    inner_->MultiplyActivated(x, activation, y);
  }
  void Activate(Tensor x, Activation activation) override { inner_->Activate(x, activation); }
  void Experts(const ExpertsArgs& args) override { inner_->Experts(args); }
  void Add(Tensor x, Tensor y) override { inner_->Add(x, y); }
  void Xielu(Tensor x, const XieluParameters& parameters) override { inner_->Xielu(x, parameters); }
  void Gate(Tensor gate, GateKind kind, Tensor y) override { inner_->Gate(gate, kind, y); }
  void Recur(const RecurrenceArgs& args) override { inner_->Recur(args); }
  void SoftCap(Tensor x, float cap) override { inner_->SoftCap(x, cap); }
  void GatherRows(Tensor x, std::span<const int64_t> rows, Tensor y) override { inner_->GatherRows(x, rows, y); }
  void SampleTokens(Tensor logits, std::span<const RowSamplingParams> choices,
                    std::span<SampledToken> chosen) override {
    inner_->SampleTokens(logits, choices, chosen);
  }
  void AllReduceAdd(Tensor x, Tensor y) override { inner_->AllReduceAdd(x, y); }
  void AllReduceInPlace(Tensor x) override { inner_->AllReduceInPlace(x); }
  void RmsNormOfRanks(Tensor x, int64_t columns, bool counts, const float* w, float eps) override {
    inner_->RmsNormOfRanks(x, columns, counts, w, eps);
  }
  void AllGatherColumns(Tensor x, std::span<const int64_t> borders) override { inner_->AllGatherColumns(x, borders); }
  void SampleGreedy(Tensor logits, int64_t first, std::span<SampledToken> chosen) override {
    inner_->SampleGreedy(logits, first, chosen);
  }
  void SendRows(Tensor x) override { inner_->SendRows(x); }
  void ReceiveRows(Tensor x) override { inner_->ReceiveRows(x); }
  void SendSampledTokens(size_t count) override { inner_->SendSampledTokens(count); }
  void ReceiveSampledTokens(size_t count) override { inner_->ReceiveSampledTokens(count); }

 protected:
  Backend& inner() const { return *inner_; }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace ringside
