// Memory shared between devices of one machine, in one process or several, and how ranks exchange access to it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "kernels/cuda/ranks/rank_timeout.h"
#include "kernels/ranks/comm.h"

namespace ringside::cuda {

/// Memory that a rank lends to the others, as sent to them. Plain data: all ranks run the same program.
struct PeerHandle {
  uint64_t process = 0;               // unique over all processes and machines
  std::array<char, 40> machine = {};  // boot id
  int device = 0;
  void* address = nullptr;  // in its process
  cudaIpcMemHandle_t handle = {};
  bool for_processes = false;  // whether the handle is valid
};

/// Agrees on a status: `own` if all ranks succeed, else the error of one of them.
/// REQUIRES: all ranks call it concurrently.
Status AgreeOnStatus(Comm& comm, const Status& own);

/// The memory that one rank lends to the others and maps from them, and the flag that one of its kernels timed out
/// waiting for a rank. Owned by the backend.
/// THREAD: the backend's, unless noted.
class PeerMemory {
 public:
  PeerMemory() = default;
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  ~PeerMemory() { Stop(); }

  /// Allocates `count` zeros on the current device; null if memory is exhausted.
  template <class T>
  T* Allocate(size_t count) {
    return static_cast<T*>(TakeBytes(count * sizeof(T)));
  }
  /// As Take, for access by the other ranks. REQUIRES: `device` is current.
  template <class T>
  PeerHandle Export(int device, size_t count) {
    return ExportBytes(device, count * sizeof(T));
  }
  /// Sets *to to exported memory as seen from device `own`, valid until Stop.
  /// REQUIRES: `own` is current.
  /// ERRORS: kUnavailable without peer access to that rank's device, or if its process is not reachable.
  template <class T>
  Status MapPeer(int own, const PeerHandle& other, T** to) {
    void* address = nullptr;
    RETURN_IF_ERROR(MapPeerBytes(own, other, &address));
    *to = static_cast<T*>(address);
    return Status::Ok();
  }
  /// For kernels that wait for other ranks.
  RankTimeout MakeTimeout(std::chrono::milliseconds timeout);
  /// Whether all allocations succeeded.
  bool had_room() const { return had_room_; }
  /// Frees everything except memory that another process may have mapped; the driver frees that when this process ends.
  void Stop();

  /// Whether a kernel has timed out. THREAD: any.
  bool lost() const { return lost_ != nullptr && *lost_ != 0; }
  /// Makes waiting kernels give up at once. THREAD: any.
  void GiveUp() const {
    if (lost_ != nullptr) *lost_ = 1;
  }

 private:
  void* TakeBytes(size_t bytes);
  PeerHandle ExportBytes(int device, size_t bytes);
  Status MapPeerBytes(int own, const PeerHandle& other, void** to);
  Status MapProcessBytes(int own, const PeerHandle& other, void** to);

  std::vector<void*> memory_, exported_;
  std::vector<void*> mapped_;   // mapped from other processes
  bool for_processes_ = false;  // whether another process may have mapped exported memory
  bool had_room_ = true;
  volatile uint32_t* lost_ = nullptr;  // pinned host memory
};

}  // namespace ringside::cuda
