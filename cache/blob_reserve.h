// Memory for blobs that the machine has given pages to already. Copying a cache into fresh memory takes several times
// as long as into memory that was used before, and the engine's thread waits for that copy: so the blocks of blobs that
// are gone are kept for the next ones, and a storage thread lays in new ones ahead of need. One for the process,
// bounded, thread-safe.
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

  /// Uninitialised memory of so many bytes, which comes back here when its last owner is gone.
  std::shared_ptr<std::byte[]> Take(size_t bytes);
  /// Sees to it that `blocks` blocks of this size wait here, as far as the limit allows, in place of other sizes. Takes
  /// milliseconds.
  void LayIn(size_t bytes, size_t blocks);
  /// Gives it, for good, `count` cells of `cell_bytes` of memory that is better than any other: blobs that fill more
  /// than half of one take cells first.
  void Lend(std::byte* cells, size_t cell_bytes, size_t count);
  /// Cells that blobs of so many bytes may still take.
  size_t free_cells(size_t bytes) const;
  /// Whether there are cells for blobs of this size, free or in use.
  bool has_cells(size_t bytes) const;
  /// Whether this is memory of a cell.
  bool IsInCell(const std::byte* data) const;
  /// Bytes of all blobs that are in use, in cells too.
  size_t taken_bytes() const { return taken_bytes_; }
  /// What waits here, cells apart: at most limits::kBlobReserveBytes.
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
  Cell TakeCell(size_t bytes);

  std::atomic<size_t> taken_bytes_{0};
  mutable std::mutex mutex_;
  std::unordered_map<size_t, std::vector<Block>> blocks_;  // by size
  size_t waiting_bytes_ = 0;
  std::map<size_t, std::vector<std::byte*>> cells_;  // by size
  std::map<const std::byte*, size_t> lent_;          // ranges of cells, by their beginning
};

}  // namespace ringside
