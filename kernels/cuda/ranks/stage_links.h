// Peer memory through which a rank sends rows to its counterpart in the next pipeline stage, and the kernels that use
// it. The sender writes into the receiver's inbox and signals with call numbers that only grow. The last stage's
// successor is the first. All pointers are valid on the devices of both ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ranks/rank_timeout.h"

namespace ringside::cuda {

/// Plain data, passed to kernels.
struct StageLinks {
  static constexpr int kMaxBlocks = 128;         // per kernel
  static constexpr int64_t kBytes = 16 << 20;    // per call
  static constexpr uint32_t kCallsInFlight = 2;  // calls that the next stage may not have consumed yet

  std::byte* inbox = nullptr;       // own [calls in flight][kBytes]; written by the previous stage
  std::byte* next_inbox = nullptr;  // the next stage's
  uint32_t* published = nullptr;    // own [kMaxBlocks]: the last call published by each block of the previous stage
  uint32_t* next_published = nullptr;
  uint32_t* consumed = nullptr;              // own: our last call consumed by the next stage
  uint32_t* consumed_of_previous = nullptr;  // the previous stage's: its last call consumed by us
  uint32_t* sent = nullptr;                  // own: completed calls, and completed blocks of the current one
  uint32_t* received = nullptr;
  uint32_t* send_blocks = nullptr;
  uint32_t* receive_blocks = nullptr;
  RankTimeout timeout;
};

/// Sends x (4 bytes per element, contiguous, at most kBytes) to the next stage, or receives it from the previous one.
void LaunchSend(const Launcher& on, const StageLinks& links, Tensor x);
void LaunchReceive(const Launcher& on, const StageLinks& links, Tensor x);

}  // namespace ringside::cuda
