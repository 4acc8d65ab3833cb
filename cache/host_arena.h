// Host memory for caches on their way between a device and the tiers: cells of one size, which the backend has made fit
// for fast copies, and which blobs of about that size take before any other memory. Making them takes seconds, and a
// driver that pins memory lets nobody use the device: so all of them are made before the first turn. The cells outlive
// the arena, the engine and the backend: they stay with BlobReserve. Owned by the engine loop.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>

namespace ringside {

class SlabMemory;

class HostArena {
 public:
  HostArena() = default;
  /// Stops making cells where it is.
  ~HostArena();
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  /// Begins to make `bytes` of cells of `cell_bytes`, on threads of its own; ends early where the backend has no use
  /// for them, or the host no more. `memory` outlives the arena. Once.
  void Start(SlabMemory& memory, size_t cell_bytes, size_t bytes);
  /// Returns when all are made, or after Stop. One thread, after Start.
  void Wait();
  /// No more cells are begun. Any thread.
  void Stop() { stopping_ = true; }

 private:
  void Make(SlabMemory& memory, size_t cell_bytes, size_t bytes);
  /// Makes cells until no piece of the arena is left to be begun.
  void MakePieces(SlabMemory& memory, size_t cell_bytes, size_t bytes);
  /// Makes so many cells. False if there is no more to be had.
  bool MakePiece(SlabMemory& memory, size_t cell_bytes, size_t cells, bool with_pages);

  std::atomic<bool> stopping_{false};
  std::atomic<size_t> begun_{0}, made_{0};  // bytes
  std::thread thread_;
};

}  // namespace ringside
