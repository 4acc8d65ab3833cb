// Host memory for caches on their way between a device and the tiers: cells of one size, which the backend has made fit
// for fast copies, and which blobs of about that size take before any other memory. Making them takes a second for a
// few GiB, so a thread of its own does it, piece by piece, from the start on. The cells outlive the arena, the engine
// and the backend: they stay with BlobReserve. Owned by the engine loop.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>

namespace ringside {

class SlabMemory;

class HostArena {
 public:
  /// Of memory that nobody has taken yet, `ready_bytes` are made however busy the device is.
  explicit HostArena(size_t ready_bytes = size_t{2} << 30) : ready_bytes_(ready_bytes) {}
  /// Stops making cells where it is.
  ~HostArena();
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  /// Begins to make `bytes` of cells of `cell_bytes`; ends early where the backend has no use for them, or the host no
  /// more. `memory` outlives the arena. Once.
  void Start(SlabMemory& memory, size_t cell_bytes, size_t bytes);
  /// Whether anybody waits for the device, or is about to: a driver that pins memory lets nobody use it, so the arena
  /// then makes no more than what is wanted soon, with pauses. Any thread.
  void SetDeviceBusy(bool busy) { device_busy_ = busy; }

 private:
  void Make(SlabMemory& memory, size_t cell_bytes, size_t bytes);
  /// False if there is no more to be had.
  bool Pin(SlabMemory& memory, std::byte* data, size_t bytes, size_t cell_bytes);

  const size_t ready_bytes_;
  std::atomic<bool> stopping_{false}, device_busy_{false};
  std::thread thread_;
};

}  // namespace ringside
