// Memory through which devices of one machine reach one another, in one process or in several, and how ranks that share
// some meet.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "kernels/cuda/ranks/rank_patience.h"
#include "kernels/ranks/comm.h"

namespace ringside::cuda {

/// Memory that a rank lends the others, as it tells them of it: plain data, for all run the same program.
struct LentMemory {
  uint64_t process = 0;               // a number that no other process has, whatever its machine
  std::array<char, 40> machine = {};  // of one start of its system
  int device = 0;
  void* address = nullptr;  // in its process
  cudaIpcMemHandle_t handle = {};
  bool for_processes = false;  // whether the handle is good
};

/// `own` if all ranks have the same to say, else what one of them says. All call it at one time.
Status AgreeOn(Comm& comm, const Status& own);

/// What one rank lends the others of its device and reaches of theirs, and the sign that its kernels have waited for
/// one of them in vain. Owned by the backend, its thread.
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
  /// The same on `device`, which is selected, for the others to reach.
  template <class T>
  LentMemory Lend(int device, size_t count) {
    return LendBytes(device, count * sizeof(T));
  }
  /// *to = where device `own`, which is selected, has what a rank lends, until Stop: kUnavailable if it does not reach
  /// that rank's device, or its process from this one.
  template <class T>
  Status Reach(int own, const LentMemory& other, T** to) {
    void* address = nullptr;
    RETURN_IF_ERROR(ReachBytes(own, other, &address));
    *to = static_cast<T*>(address);
    return Status::Ok();
  }
  /// For kernels that wait for others.
  RankPatience TakePatience(std::chrono::milliseconds timeout);
  /// Whether there was room for all that was taken.
  bool had_room() const { return had_room_; }
  /// Gives all of it back, but for what another process may have reached: that is the driver's to free, when this
  /// process has ended.
  void Stop();

  /// Whether a kernel has waited in vain. Any thread.
  bool lost() const { return lost_ != nullptr && *lost_ != 0; }
  /// Kernels that wait give up at once. Any thread.
  void GiveUp() const {
    if (lost_ != nullptr) *lost_ = 1;
  }

 private:
  void* TakeBytes(size_t bytes);
  LentMemory LendBytes(int device, size_t bytes);
  Status ReachBytes(int own, const LentMemory& other, void** to);
  Status ReachProcess(int own, const LentMemory& other, void** to);

  std::vector<void*> memory_, lent_;
  std::vector<void*> mapped_;   // of other processes
  bool for_processes_ = false;  // whether one of them may have mapped what is lent
  bool had_room_ = true;
  volatile uint32_t* lost_ = nullptr;  // pinned host memory
};

}  // namespace ringside::cuda
