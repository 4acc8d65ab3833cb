// Memory through which the devices of a group of ranks reach one another, and the kernels that do: every rank writes
// into the others' inboxes, or into its outbox for them to read, and tells them by numbers that only grow. All pointers
// are good on every device of the group.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ranks/rank_patience.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

constexpr int kMaxRanks = 8;

/// Plain data, passed to kernels.
struct RankLinks {
  static constexpr int kMaxBlocks = 128;             // of a kernel that waits for the same kernel elsewhere
  static constexpr int64_t kInboxFours = 131072;     // values in fours, of one rank in one call
  static constexpr int64_t kOutboxBytes = 32 << 20;  // of one call
  static constexpr int64_t kInboxWord = 16;          // bytes of a four on its way: half of them say which call's it is

  int rank = 0, ranks = 1;
  uint4* inboxes[kMaxRanks] = {};       // each [2 calls][ranks][kInboxFours]; a rank's own is written by others
  std::byte* outboxes[kMaxRanks] = {};  // each [2 calls][kOutboxBytes]; read by others
  uint32_t* told[kMaxRanks] = {};       // each [ranks][kMaxBlocks]: the last call that a rank has told of
  uint32_t* calls = nullptr;            // own: that have begun everywhere on this device
  uint32_t* blocks_begun = nullptr;     // own: of the call that begins
  RankPatience patience;
};

/// y += the sum of all ranks' x, each rounded to `dtype` (kF16 or kBF16), in the order of the ranks. x, y [rows, n]
/// kF32, n a multiple of 8, x without gaps; rows * n at most kOutboxBytes of the type.
void LaunchAddAllRanks(const Launcher& on, const RankLinks& links, DType dtype, Tensor x, Tensor y);
/// A norm of every row of what is summed (launch.h: LaunchNorm).
struct NormOfSums {
  const float* weight = nullptr;
  const float* bias = nullptr;  // or null
  bool layer = false;
  float eps = 0;
  Tensor y;
};
/// Whether LaunchAddAllRanksAndNorm takes them: up to RankLinks::kMaxBlocks rows that fit in an inbox, each in the
/// registers of a block.
bool CanNormSums(Tensor y, const NormOfSums& norm);
/// LaunchAddAllRanks, and the norm of y's rows in the same kernel.
void LaunchAddAllRanksAndNorm(const Launcher& on, const RankLinks& links, DType dtype, Tensor x, Tensor y,
                              const NormOfSums& norm);
/// Columns [borders[r], borders[r + 1]) of x (kF32) as rank r has them; at most kOutboxBytes of each rank.
void LaunchGatherColumns(const Launcher& on, const RankLinks& links, const int64_t* borders, Tensor x);

}  // namespace ringside::cuda
