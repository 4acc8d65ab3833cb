// NCCL and the device memory of its messages, for ranks whose devices have no peer access to one another. Owned by the
// backend.
// THREAD: the backend's.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "base/status.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ranks/peer_memory.h"
#include "kernels/ranks/comm.h"
#include "kernels/ranks/stream_comm.h"

namespace ringside::cuda {

/// A launcher without programmatic dependent launch. Kernels after NCCL's must not overlap them, because NCCL's kernels
/// do not trigger their dependents.
inline Launcher WithoutOverlap(const Launcher& on) {
  Launcher out = on;
  out.overlap = false;
  return out;
}

class DeviceMessages {
 public:
  DeviceMessages() = default;
  DeviceMessages(const DeviceMessages&) = delete;
  DeviceMessages& operator=(const DeviceMessages&) = delete;
  ~DeviceMessages() { Stop(); }

  /// Allocates memory for messages of up to `bytes` on the current device, whose UUID is `uuid`.
  /// REQUIRES: all ranks of `comm` call it concurrently; `comm` outlives this.
  /// ERRORS: kUnavailable without NCCL, or if two ranks share a device; kOverloaded if memory is exhausted.
  Status Start(Comm& comm, const cudaUUID_t& uuid, int64_t bytes, cudaStream_t stream);
  /// REQUIRES: no call is in flight, and no captured graph contains one.
  void Stop();

  bool started() const { return nccl_ != nullptr; }
  StreamComm& nccl() const { return *nccl_; }
  void* memory() const { return memory_; }
  /// kUnavailable once a rank has failed to respond. THREAD: any.
  Status status() const { return started() ? nccl_->status() : Status::Ok(); }
  /// Whether captured calls must no longer be replayed.
  bool broken() const { return !status().ok(); }

  /// While an instance lives, the thread waits for its stream. At most one instance at a time.
  class Waiting {
   public:
    explicit Waiting(StreamComm* nccl) : nccl_(nccl) {
      if (nccl_ != nullptr) nccl_->BeginWait();
    }
    ~Waiting() {
      if (nccl_ != nullptr) nccl_->EndWait();
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    StreamComm* nccl_;
  };
  [[nodiscard]] Waiting Wait() const { return Waiting(nccl_.get()); }

 private:
  std::unique_ptr<StreamComm> nccl_;  // null: not needed
  void* memory_ = nullptr;
};

/// Status of a group that exchanges through peer memory, NCCL, or both. Where `comm` has failed, kernels that wait for
/// others give up. kUnavailable once a `member` ("rank", "stage") has not come. Any thread.
Status GroupStatus(const Comm& comm, const PeerMemory& memory, const DeviceMessages& messages, const char* member);

}  // namespace ringside::cuda
