// NCCL, and the device memory that its messages lie in: how ranks speak whose devices do not reach one another's
// memory. Owned by the backend, its thread.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "base/status.h"
#include "kernels/cuda/launch.h"
#include "kernels/ranks/comm.h"
#include "kernels/ranks/stream_comm.h"

namespace ringside::cuda {

/// What follows NCCL's kernels must not come onto the device before they have ended: they do not say when they may be
/// joined.
inline Launcher Behind(const Launcher& on) {
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

  /// Takes memory for messages of up to `bytes` on the device that is selected, which is `uuid`. All ranks of `comm`
  /// call it at one time; it must outlive this. kUnavailable without NCCL, or if two ranks are on one device;
  /// kOverloaded without room.
  Status Start(Comm& comm, const cudaUUID_t& uuid, int64_t bytes, cudaStream_t stream);
  /// Nothing of it is under way, and no graph with its calls is left.
  void Stop();

  bool started() const { return nccl_ != nullptr; }
  StreamComm& nccl() const { return *nccl_; }
  void* memory() const { return memory_; }
  /// kUnavailable once a rank has not come. Any thread.
  Status status() const { return started() ? nccl_->status() : Status::Ok(); }
  /// Whether recorded calls must not run any more.
  bool broken() const { return !status().ok(); }

  /// While it lives the thread waits for its stream. One at a time.
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

}  // namespace ringside::cuda
