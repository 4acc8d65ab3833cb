// The device as seen by caches: address ranges for slabs, memory committed page by page, and copies of slabs to the
// host and back, concurrent with operations. Every backend is one; several devices that share a network's heads look
// like one (engine/model/ranks/slab_shards.h).
// THREAD: one, the engine's, unless noted.
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

  /// Makes this backend's device current for the calling thread: before the thread's first other call, and again after
  /// the thread has called or made another backend. The thread that makes a backend may call it at once.
  virtual void MakeCurrent() {}
  /// "avx512_vnni, 2 threads": for the log.
  virtual std::string Describe() const = 0;
  /// Bytes left for Allocate or Commit; nullopt if unknown.
  virtual std::optional<size_t> free_bytes() const { return std::nullopt; }
  /// kUnavailable, naming the failure, after the first failure of the device. THREAD: any.
  virtual Status status() const { return Status::Ok(); }

  // ---- address ranges with memory committed page by page; sizes in bytes ------------------------------------------
  /// Page size for slabs of this size.
  virtual int64_t page_bytes(int64_t slab_bytes) const = 0;
  /// Addresses without memory, for consecutive slabs; they must not be accessed until committed.
  /// ERRORS: kOverloaded, naming the bytes.
  virtual Result<Buffer> Reserve(size_t bytes) = 0;
  /// Commits memory, with undefined contents, to whole pages of a range. Operations issued later may use it, even if
  /// the mapping is still pending.
  /// ERRORS: kOverloaded if no memory is left; then nothing changes.
  virtual Status Commit(void* data, size_t bytes) = 0;
  /// Whether committed memory is mapped; waits for it at most `timeout_us`. Operations that use it earlier block their
  /// caller until it is.
  virtual bool Committed(const void* /*data*/, size_t /*bytes*/, int64_t /*timeout_us*/) { return true; }
  /// Decommits the pages. Operations issued before may still use them, later ones must not.
  virtual void Decommit(void* data, size_t bytes) = 0;
  /// Maps the committed pages of `from` also to the addresses `to`, which have no pages. Later writes to either are
  /// visible in both. Pages stay committed until their last user calls Decommit.
  /// ERRORS: kUnavailable, if this memory cannot; kOverloaded. Then nothing changes.
  virtual Status Share(void* /*to*/, const void* /*from*/, size_t /*bytes*/) {
    return Unavailable("this memory cannot share pages");
  }
  /// As Decommit, for pages that others of Share still use: these keep their memory.
  virtual void Unshare(void* /*data*/, size_t /*bytes*/) {}
  /// Releases a range of Reserve.
  virtual void Free(void* data, size_t bytes) = 0;

  // ---- slabs, in the layout of KvShape -----------------------------------------------------------------------------
  /// Copies whole tiles, or the beginning of a slab up to a tile (KvShape::HeldBytes), from one slab to another, after
  /// copies of these two to and from the host. If ranks share a slab, the copy must start at the beginning of both.
  virtual void CopyOnDevice(void* to, const void* from, size_t bytes) = 0;
  /// Starts to copy the runs, in order, concurrently with operations. The copies see everything issued before;
  /// Attention on this slab that is issued later waits for them, layer by layer; so do operations on its recurrent
  /// state. The host memory must stay valid until CopyDone. Loads complete in call order, and so do saves.
  virtual CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) = 0;
  virtual CopyTicket LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) = 0;
  /// Never blocks.
  virtual bool CopyDone(CopyTicket) { return true; }
  virtual void WaitForCopy(CopyTicket) {}
  /// The smallest chunk of a slab, in bytes, that is copied at about the full rate by itself.
  virtual int64_t slab_chunk_bytes() const { return int64_t{1} << 20; }
  /// Page-locks host memory for the fastest slab copies, for the lifetime of the process. False: there is no benefit,
  /// or the limit is reached. THREAD: any.
  virtual bool PinHost(void* /*data*/, size_t /*bytes*/) { return false; }
};

}  // namespace ringside
