// The device as caches see it: addresses for slabs, memory for them page by page, and copies of slabs to the host and
// back, beside the operations. Every backend is one; several devices that share a network's heads look like one
// (engine/model/ranks/slab_shards.h). Calls come from one thread, the engine's, unless said otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "kernels/kv_shape.h"
#include "kernels/slab_run.h"
#include "kernels/tensor.h"

namespace ringside {

class SlabMemory {
 public:
  virtual ~SlabMemory() = default;

  /// Selects this backend's device for the calling thread: once before its first other call, and again where the thread
  /// has called, or made, another backend meanwhile. Whoever makes a backend may call it at once.
  virtual void UseOnThisThread() {}
  /// "avx512_vnni, 2 threads": for the log.
  virtual std::string Describe() const = 0;
  /// Bytes that Allocate, or Commit, still has; nullopt where nobody knows.
  virtual std::optional<size_t> free_bytes() const { return std::nullopt; }
  /// kUnavailable from the first failure of the device on, naming it. Any thread.
  virtual Status status() const { return Status::Ok(); }

  // ---- address ranges whose memory comes and goes page by page; sizes in bytes
  // ---------------------------------------
  /// The size of the pages of a slab of so many bytes.
  virtual int64_t page_bytes(int64_t slab_bytes) const = 0;
  /// Addresses without memory, for slabs one behind the other; kOverloaded, naming the bytes. What has no memory must
  /// not be touched.
  virtual Result<Buffer> Reserve(size_t bytes) = 0;
  /// Gives whole pages of such a range memory, which may hold anything. What is issued from now on may use it, whether
  /// it is there already or on its way. kOverloaded, and nothing changed, if there is none left.
  virtual Status Commit(void* data, size_t bytes) = 0;
  /// Whether memory that Commit gave is there: waits for it `most_us` at most. What uses it before waits by itself, and
  /// its caller with it.
  virtual bool Committed(const void* /*data*/, size_t /*bytes*/, int64_t /*most_us*/) { return true; }
  /// Takes it away again: what was issued before may still use it, nothing later.
  virtual void Decommit(void* data, size_t bytes) = 0;
  /// Gives back what Reserve gave.
  virtual void Free(void* data, size_t bytes) = 0;

  // ---- slabs, in the layout of KvShape -----------------------------------------------------------------------------
  /// Whole tiles from a slab to another, after copies of these two to and from the host. Where a slab is shared by
  /// ranks, from its beginning to another's.
  virtual void CopyOnDevice(void* to, const void* from, size_t bytes) = 0;
  /// Begins to copy the runs, in order, beside the operations. The copies see what was issued before; Attention on this
  /// slab that is issued later waits for them, layer by layer, by itself. The host memory must stay until CopyDone.
  /// Loads end in the order of their calls, and so do saves.
  virtual CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) = 0;
  virtual CopyTicket LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) = 0;
  /// Never blocks.
  virtual bool CopyDone(CopyTicket) { return true; }
  virtual void WaitForCopy(CopyTicket) {}
  /// About how many bytes a piece of a slab should have that is copied by itself: the least that is copied at the full
  /// rate.
  virtual int64_t slab_piece_bytes() const { return int64_t{1} << 20; }
  /// Makes host memory fit for the fastest copies to and from slabs, for as long as the process lives. False: there is
  /// nothing to gain, or no more to be had. Any thread.
  virtual bool PinHost(void* /*data*/, size_t /*bytes*/) { return false; }
};

}  // namespace ringside
