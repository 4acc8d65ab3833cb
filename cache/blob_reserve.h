// A pool of prefaulted memory for blobs. A copy into fresh memory is several times slower than one into memory whose
// pages are mapped, and the engine thread waits for that copy. Freed blocks are therefore cached for reuse, and a
// storage thread prefaults new ones ahead of need. One per process, bounded. THREAD: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace ringside {

class BlobReserve {
 public:
  static BlobReserve& Instance();

  /// Uninitialized memory of `bytes` bytes; it returns to the pool when its last owner releases it.
  std::shared_ptr<std::byte[]> Acquire(size_t bytes);
  /// Prefaults until `blocks` blocks of this size are cached, within the limit, and drops blocks of other sizes for
  /// them. Takes milliseconds.
  void Prefault(size_t bytes, size_t blocks);
  /// Adds, for good, `count` cells of `cell_bytes` bytes of preferred (pinned) memory: a blob that fills more than half
  /// of a cell uses a cell if one is free.
  void Lend(std::byte* cells, size_t cell_bytes, size_t count);
  /// Free cells for blobs of this size.
  size_t free_cells(size_t bytes) const;
  /// True if cells for blobs of this size exist, free or in use.
  bool has_cells(size_t bytes) const;
  /// True if `data` is in a cell.
  bool IsInCell(const std::byte* data) const;
  /// Bytes of all live blobs, those in cells included.
  size_t taken_bytes() const { return taken_bytes_; }
  /// Cached bytes outside cells: at most limits::kBlobReserveBytes.
  size_t waiting_bytes() const;
  size_t waiting_blocks(size_t bytes) const;

 private:
  using Block = std::unique_ptr<std::byte[]>;
  BlobReserve() = default;
  void GiveBack(Block block, size_t bytes);
  struct Cell {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  Cell AcquireCell(size_t bytes);

  std::atomic<size_t> taken_bytes_{0};
  mutable std::mutex mutex_;
  std::unordered_map<size_t, std::vector<Block>> blocks_;  // cached blocks by size
  size_t waiting_bytes_ = 0;
  std::map<size_t, std::vector<std::byte*>> cells_;  // free cells by size
  std::map<const std::byte*, size_t> lent_;          // address ranges of cells, by start
};

}  // namespace ringside
