// Presents the sharded slabs of several ranks as one memory: an engine address denotes a slab that every rank holds its
// share of on its device. The host layout is that of a single device, for any number of ranks, so a cache saved by two
// ranks can be restored by one or by four.
#pragma once

#include <atomic>
#include <concepts>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/ranks/rank_group.h"
#include "engine/model/ranks/slab_part.h"
#include "engine/model/weights/shard.h"
#include "kernels/slab_memory.h"

namespace ringside {

class SlabShards final : public SlabMemory {
 public:
  /// `memories`: one per rank, each used on its rank's thread only. REQUIRES: all arguments outlive it.
  SlabShards(RankGroup& group, std::vector<SlabMemory*> memories, const std::vector<Shard>& shards,
             const ModelSpec& spec);
  ~SlabShards() override;

  void MakeCurrent() override { ranks_.front().memory->MakeCurrent(); }
  std::string Describe() const override;
  std::optional<size_t> free_bytes() const override;
  Status status() const override;

  int64_t page_bytes(int64_t slab_bytes) const override;
  Result<Buffer> Reserve(size_t bytes) override;
  Status Commit(void* data, size_t bytes) override;
  bool Committed(const void* data, size_t bytes, int64_t timeout_us) override;
  void Decommit(void* data, size_t bytes) override;
  Status Share(void* to, const void* from, size_t bytes) override;
  void Unshare(void* data, size_t bytes) override;
  void Free(void* data, size_t bytes) override;

  void CopyOnDevice(void* to, const void* from, size_t bytes) override;
  CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) override;
  CopyTicket LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) override;
  bool CopyDone(CopyTicket ticket) override;
  void WaitForCopy(CopyTicket ticket) override;
  int64_t slab_chunk_bytes() const override;
  bool PinHost(void* data, size_t bytes) override { return ranks_.front().memory->PinHost(data, bytes); }

  /// A rank's slab shape, and its local address for the engine's slab address `data`.
  KvShape ShapeOf(size_t rank, const KvShape& shape) const { return ranks_[rank].part.ShapeOf(shape); }
  void* Local(size_t rank, const void* data) const;

 private:
  /// Copies in one direction that a rank has started, on its thread, and the last finished one.
  struct Copies {
    std::deque<std::pair<uint64_t, CopyTicket>> begun;
    std::atomic<uint64_t> done{0};
  };
  struct Rank {
    Rank(SlabMemory* of, const Shard& shard, const ModelSpec& spec) : memory(of), part(shard, spec) {}
    SlabMemory* memory;
    SlabPart part;
    Copies saved, loaded;
    Copies& Of(bool load) { return load ? loaded : saved; }
  };
  struct Range {
    std::byte* data = nullptr;  // address space only, no memory
    size_t bytes = 0;
    std::vector<Buffer> own;  // by rank
  };

  /// Bytes of a rank's slab for `bytes` of the whole slab, rounded up to a device's vectors.
  template <std::integral Bytes>
  Bytes Share(size_t rank, Bytes bytes) const {
    constexpr Bytes kVector = 64;
    const SlabRatio ratio = ranks_[rank].part.ratio();
    const auto all = static_cast<Bytes>(ratio.all);
    return ((bytes * static_cast<Bytes>(ratio.own) + all - 1) / all + kVector - 1) / kVector * kVector;
  }
  const Range& RangeOf(const void* data) const;
  /// Calls `call` on all ranks. If it fails on any, calls `undo` on the others and returns the first failure.
  template <class Do, class Undo>
  Status OnAll(Do call, Undo undo);
  CopyTicket Begin(const KvShape& shape, const void* slab, std::span<const SlabRun> runs, bool load);
  /// THREAD: the rank's.
  static void PollCopies(Rank& rank, bool wait);

  RankGroup& group_;
  std::deque<Rank> ranks_;     // a rank does not move
  std::vector<Range> ranges_;  // reservations
  uint64_t copies_ = 0;        // copies started; a ticket is twice the number, plus 1 for a load
};

}  // namespace ringside
