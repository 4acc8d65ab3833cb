// Point-to-point transfers between pipeline stages: rows of a step to the next stage, and sampled tokens from the last
// stage to the first. Uses our own kernels if all neighbours have peer access, otherwise NCCL; all stages agree. Owned
// by the backend.
// THREAD: the backend's.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "kernels/backend_options.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ranks/device_messages.h"
#include "kernels/cuda/ranks/stage_peers.h"

namespace ringside::cuda {

class StageExchange {
 public:
  struct Options {
    int device = 0;  // the current device
    cudaUUID_t uuid = {};
    bool only_nccl = false;
  };

  /// REQUIRES: the ranks of all stages call it concurrently.
  /// ERRORS: kUnavailable, on every rank, if the devices cannot communicate; kOverloaded if memory is exhausted.
  Status Start(std::unique_ptr<Comm> comm, const Options& options, const Launcher& on);
  /// Shuts NCCL down. REQUIRES: no call is in flight, and no captured graph contains one.
  void Stop() { messages_.Stop(); }

  bool started() const { return comm_ != nullptr; }
  bool by_nccl() const { return messages_.started(); }
  /// For the log: ", stage transfers by NCCL", for instance.
  std::string Describe() const;
  /// kUnavailable once a stage has failed to respond. THREAD: any.
  Status status() const;
  /// Whether captured NCCL calls must no longer be replayed.
  bool broken() const { return messages_.broken(); }
  /// While the returned object lives, the thread waits for its stream.
  [[nodiscard]] DeviceMessages::Waiting Wait() const { return messages_.Wait(); }

  /// Sends x (kF32, contiguous, at most StageLinks::kBytes) to the next stage, or receives it from the previous one.
  /// Kernels after a Send by NCCL must be launched without overlap (see WithoutOverlap).
  void Send(const Launcher& on, Tensor x);
  void Receive(const Launcher& on, Tensor x);

 private:
  Status StartNccl(const Options& options, const Launcher& on);
  int next() const { return (comm_->rank() + 1) % comm_->ranks(); }
  int last() const { return (comm_->rank() + comm_->ranks() - 1) % comm_->ranks(); }

  std::unique_ptr<Comm> comm_;
  StagePeers peers_;
  DeviceMessages messages_;  // if started, it replaces peers_
};

}  // namespace ringside::cuda
