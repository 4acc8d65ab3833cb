// The slabs of ranks that share a network's layers and key/value heads, as one memory: the engine's addresses stand for
// a slab of all of them, of which every rank has its own on its device. On the host slabs look as one device's do,
// however many ranks there are, so a cache that was saved by two is restored by one or by four.
#pragma once

#include <atomic>
#include <concepts>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/ranks/rank_group.h"
#include "engine/model/weights/shard.h"
#include "kernels/slab_memory.h"

namespace ringside {

class SlabShards final : public SlabMemory {
 public:
  /// All outlive it. `memories` are the ranks', each used on its rank's thread only.
  SlabShards(RankGroup& group, std::vector<SlabMemory*> memories, const std::vector<Shard>& shards,
             const ModelSpec& spec);
  ~SlabShards() override;

  void UseOnThisThread() override { ranks_.front().memory->UseOnThisThread(); }
  std::string Describe() const override;
  std::optional<size_t> free_bytes() const override;
  Status status() const override;

  int64_t page_bytes(int64_t slab_bytes) const override;
  Result<Buffer> Reserve(size_t bytes) override;
  Status Commit(void* data, size_t bytes) override;
  bool Committed(const void* data, size_t bytes, int64_t timeout_us) override;
  void Decommit(void* data, size_t bytes) override;
  void Free(void* data, size_t bytes) override;

  void CopyOnDevice(void* to, const void* from, size_t bytes) override;
  CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) override;
  CopyTicket LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) override;
  bool CopyDone(CopyTicket ticket) override;
  void WaitForCopy(CopyTicket ticket) override;
  int64_t slab_piece_bytes() const override;
  bool PinHost(void* data, size_t bytes) override { return ranks_.front().memory->PinHost(data, bytes); }

  /// The shape of a rank's slabs, and where on its device the slab lies that the engine knows at `data`.
  KvShape ShapeOf(size_t rank, const KvShape& shape) const;
  void* Local(size_t rank, const void* data) const;

 private:
  /// Copies of one direction that a rank has begun, on its thread, and the last of them that is done.
  struct Copies {
    std::deque<std::pair<uint64_t, CopyTicket>> begun;
    std::atomic<uint64_t> done{0};
  };
  struct Rank {
    SlabMemory* memory = nullptr;
    IndexRange layers, kv_heads;
    bool saves = true;  // its heads
    /// Heads of all its layers together.
    int64_t size() const { return layers.size() * kv_heads.size(); }
    Copies saved, loaded;
    Copies& Of(bool load) { return load ? loaded : saved; }
  };
  struct Range {
    std::byte* data = nullptr;  // no memory: addresses alone
    size_t bytes = 0;
    std::vector<Buffer> own;  // of each rank
  };

  /// Bytes of a rank's slab for so many of the whole one.
  template <std::integral Bytes>
  Bytes Share(size_t rank, Bytes bytes) const {
    return bytes * static_cast<Bytes>(ranks_[rank].size()) / static_cast<Bytes>(all_);
  }
  const Range& RangeOf(const void* data) const;
  CopyTicket Begin(const KvShape& shape, const void* slab, std::span<const SlabRun> runs, bool load);
  /// On its thread.
  static void LookAtCopies(Rank& rank, bool wait);

  RankGroup& group_;
  int64_t all_;  // heads of all layers together
  std::vector<Rank> ranks_;
  std::vector<Range> ranges_;  // what is reserved
  uint64_t copies_ = 0;        // begun; a ticket is twice that, and 1 more for a load
};

}  // namespace ringside
