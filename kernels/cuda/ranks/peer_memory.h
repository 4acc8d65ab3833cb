// Memory through which devices of one process reach one another, and how ranks that share some meet.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "kernels/comm.h"
#include "kernels/cuda/ranks/rank_patience.h"

namespace ringside::cuda {

/// Where memory is.
struct PeerPlace {
  uint64_t process = 0;  // a number that no other process has, whatever its machine
  int device = 0;
};
/// On a device of this process.
PeerPlace PlaceOn(int device);
/// Lets device `own`, which is selected, use memory at `other`: kUnavailable if it cannot, or if that is of another
/// process.
Status ReachMemoryOf(int own, const PeerPlace& other);

/// `own` if all ranks have the same to say, else what one of them says. All call it at one time.
Status AgreeOn(Comm& comm, const Status& own);

/// What one rank lends the others of its device, and the sign that its kernels have waited for one of them in vain.
/// Owned by the backend, its thread.
class PeerMemory {
 public:
  PeerMemory() = default;
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  ~PeerMemory() { Stop(); }

  /// So many zeros on the device that is selected; null without room.
  template <class T>
  T* Take(size_t count) {
    return static_cast<T*>(TakeBytes(count * sizeof(T)));
  }
  /// For kernels that wait for others.
  RankPatience TakePatience(std::chrono::milliseconds timeout);
  /// Whether there was room for all that was taken.
  bool had_room() const { return had_room_; }
  /// Gives all of it back.
  void Stop();

  /// Whether a kernel has waited in vain. Any thread.
  bool lost() const { return lost_ != nullptr && *lost_ != 0; }

 private:
  void* TakeBytes(size_t bytes);

  std::vector<void*> memory_;
  bool had_room_ = true;
  volatile uint32_t* lost_ = nullptr;  // pinned host memory
};

}  // namespace ringside::cuda
