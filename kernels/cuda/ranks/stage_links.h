// Memory through which a rank hands rows to the rank in its place in the next stage, and the kernels that do: it writes
// into the other's inbox and tells it by numbers that only grow. The last stage's next is the first. All pointers are
// good on the devices of both ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ranks/rank_patience.h"

namespace ringside::cuda {

/// Plain data, passed to kernels.
struct StageLinks {
  static constexpr int kMaxBlocks = 128;         // of a kernel
  static constexpr int64_t kBytes = 16 << 20;    // of one call
  static constexpr uint32_t kCallsUnderWay = 2;  // that the next stage has not taken yet

  std::byte* inbox = nullptr;       // own [calls under way][kBytes]; written by the stage before
  std::byte* next_inbox = nullptr;  // the next stage's
  uint32_t* told = nullptr;         // own [kMaxBlocks]: the last call that each block of the stage before has told of
  uint32_t* next_told = nullptr;
  uint32_t* taken = nullptr;          // own: the last call of ours that the next stage has taken
  uint32_t* taken_of_last = nullptr;  // of the stage before: the last of its calls that we have taken
  uint32_t* sent = nullptr;           // own: calls that have ended, and blocks that have of the one that runs
  uint32_t* received = nullptr;
  uint32_t* send_blocks = nullptr;
  uint32_t* receive_blocks = nullptr;
  RankPatience patience;
};

/// x (4 bytes an element, without gaps), at most kBytes, to the next stage, or from the stage before.
void LaunchSend(const Launcher& on, const StageLinks& links, Tensor x);
void LaunchReceive(const Launcher& on, const StageLinks& links, Tensor x);

}  // namespace ringside::cuda
