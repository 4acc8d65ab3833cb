// A rank of another process, seen from the first one: its slab memory and its part of the network, through calls
// (engine/model/ranks/rank_messages.h) that it executes in order (engine/model/ranks/rank_follower.h). Calls without an
// answer are not waited for. THREAD: the rank's own thread of this process, unless noted.
#pragma once

#include <mutex>
#include <string>

#include "engine/model/ranks/rank_connection.h"
#include "engine/model/ranks/rank_decoder.h"
#include "engine/model/ranks/rank_messages.h"
#include "kernels/slab_memory.h"

namespace ringside {

class RemoteRank final : public SlabMemory, public RankDecoder {
 public:
  explicit RemoteRank(RankConnection line) : line_(std::move(line)) {}
  /// Ends the remote rank.
  ~RemoteRank() override;

  // ---- its memory: addresses are those of its process and are not dereferenced here. THREAD: any for the sizes.
  std::string Describe() const override { return "another process"; }
  std::optional<size_t> free_bytes() const override;
  Status status() const override { return line_.status(); }
  int64_t page_bytes(int64_t slab_bytes) const override;
  Result<Buffer> Reserve(size_t bytes) override;
  Status Commit(void* data, size_t bytes) override;
  void Decommit(void* data, size_t bytes) override;
  void Free(void* data, size_t bytes) override;
  void CopyOnDevice(void* to, const void* from, size_t bytes) override;
  CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) override;
  CopyTicket LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) override;

  // ---- its part of the network
  Status Reserve(int64_t rows) override;
  void Run(const StepPlan& plan, const KvShape& shape, std::span<const AttentionSegment> segments) override;
  void CopyLogits(std::span<float> logits) override;
  void Choose(std::span<const RowSamplingParams> choices) override;
  void KeepLogits() override;
  void ChooseKept(std::span<const RowSamplingParams> choices, std::span<const size_t> rows) override;
  std::vector<SampledToken> Finish() override;

 private:
  void Post(const std::string& call) const;
  Result<uint64_t> Ask(const std::string& call) const;
  Result<uint64_t> Answer() const;

  mutable RankConnection line_;
  mutable std::mutex mutex_;  // serializes a call and its answer
};

}  // namespace ringside
