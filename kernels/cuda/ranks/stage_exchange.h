// What a device of a stage hands to the next one and takes from the one before: rows of a step, and the tokens that the
// last stage chooses. By our own kernels where neighbours reach each other's memory, by NCCL where some do not; the
// same on all ranks in this place. Owned by the backend, its thread.
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
    int device = 0;  // is selected
    cudaUUID_t uuid = {};
    bool only_nccl = false;
  };

  /// The ranks of all stages call it at one time. kUnavailable, on every rank, if there is no way from device to
  /// device; kOverloaded without room.
  Status Start(std::unique_ptr<Comm> comm, const Options& options, const Launcher& on);
  /// Leaves NCCL. Nothing of it is under way, and no graph with its calls is left.
  void Stop() { messages_.Stop(); }

  bool started() const { return comm_ != nullptr; }
  bool by_nccl() const { return messages_.started(); }
  /// ", rows of stages by NCCL", or as it is.
  std::string Describe() const;
  /// kUnavailable once a stage has not come. Any thread.
  Status status() const;
  /// Whether recorded calls of NCCL must not run any more.
  bool broken() const { return messages_.broken(); }
  /// While what it returns lives the thread waits for its stream.
  [[nodiscard]] DeviceMessages::Waiting Wait() const { return messages_.Wait(); }

  /// x (kF32, without gaps), at most StageLinks::kBytes, to the next stage, or from the one before. What follows a Send
  /// by NCCL is launched Behind it.
  void Send(const Launcher& on, Tensor x);
  void Receive(const Launcher& on, Tensor x);

 private:
  Status StartNccl(const Options& options, const Launcher& on);
  int next() const { return (comm_->rank() + 1) % comm_->ranks(); }
  int last() const { return (comm_->rank() + comm_->ranks() - 1) % comm_->ranks(); }

  std::unique_ptr<Comm> comm_;
  StagePeers peers_;
  DeviceMessages messages_;  // started: instead of them
};

}  // namespace ringside::cuda
