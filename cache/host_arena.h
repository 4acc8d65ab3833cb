// Pinned host memory for snapshots in transit between a device and the tiers: equal cells that the backend has
// registered for fast copies, and that blobs of about that size prefer. Pinning takes seconds and blocks the device
// meanwhile, so all cells are made before the first turn. BlobReserve owns the cells afterwards, so they outlive the
// arena, the engine and the backend. Owned by the engine loop.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>

namespace ringside {

class SlabMemory;

class HostArena {
 public:
  HostArena() = default;
  /// Stops making cells.
  ~HostArena();
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  /// Starts to make `bytes` bytes of cells of `cell_bytes`, on its own threads. Ends early if the backend cannot pin
  /// memory or the host has no more. REQUIRES: called once; `memory` outlives the arena.
  void Start(SlabMemory& memory, size_t cell_bytes, size_t bytes);
  /// Returns when all cells are made, or after Stop. REQUIRES: Start was called. THREAD: one.
  void Wait();
  /// Starts no further cell. THREAD: any.
  void Stop() { stopping_ = true; }

 private:
  void Make(SlabMemory& memory, size_t cell_bytes, size_t bytes);
  /// Makes cells until every chunk of the arena has been claimed.
  void MakePieces(SlabMemory& memory, size_t cell_bytes, size_t bytes);
  /// Makes `cells` cells. False if the backend or the host can give no more.
  bool MakePiece(SlabMemory& memory, size_t cell_bytes, size_t cells, bool with_pages);

  std::atomic<bool> stopping_{false};
  std::atomic<size_t> begun_{0}, made_{0};  // bytes
  std::thread thread_;
};

}  // namespace ringside
