// Peer memory of a group of ranks and the kernels that use it. A rank writes into the others' inboxes, or into its own
// outbox for them to read, and signals with call numbers that only grow. All pointers are valid on every device of the
// group.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ranks/rank_timeout.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

constexpr int kMaxRanks = 8;

/// Plain data, passed to kernels.
struct RankLinks {
  static constexpr int kMaxBlocks = 128;             // resident blocks of a kernel that waits for other ranks
  static constexpr int64_t kInboxFloat4s = 131072;   // groups of four values from one rank in one call
  static constexpr int64_t kOutboxBytes = 32 << 20;  // per call
  static constexpr int64_t kInboxWord = 16;  // bytes in transit per four values; half of them are the call number

  int rank = 0, ranks = 1;
  uint4* inboxes[kMaxRanks] = {};  // each [2 calls][ranks][kInboxFloat4s]; a rank's own inboxes are written by others
  std::byte* outboxes[kMaxRanks] = {};  // each [2 calls][kOutboxBytes]; read by others
  uint32_t* published[kMaxRanks] = {};  // each [ranks][kMaxBlocks]: the last call published by each rank
  uint32_t* calls = nullptr;            // own: number of the last call that all blocks of this device have started
  uint32_t* blocks_started = nullptr;   // own: blocks that have started the current call
  RankTimeout timeout;
};

/// All-reduce: y += or = the sum of all ranks' x, each rounded to `dtype` (kF16 or kBF16), in rank order. x, y [rows,
/// n] kF32, n a multiple of 8, x contiguous; they may be the same unless y accumulates. REQUIRES: rows * n values of
/// `dtype` fit in kOutboxBytes.
void LaunchAllReduce(const Launcher& on, const RankLinks& links, DType dtype, Tensor x, Tensor y, bool accumulate);
/// The norm of every row of the sum (launch.h: LaunchNorm).
struct FusedNorm {
  const float* weight = nullptr;
  const float* bias = nullptr;  // or null
  bool layer = false;
  float eps = 0;
  Tensor y;
};
/// Whether LaunchAllReduceAddNorm supports these arguments: up to RankLinks::kMaxBlocks rows that fit in an inbox,
/// each in the registers of a block.
bool CanFuseAllReduceNorm(Tensor y, const FusedNorm& norm);
/// An accumulating LaunchAllReduce with the norm of y's rows fused in.
void LaunchAllReduceAddNorm(const Launcher& on, const RankLinks& links, DType dtype, Tensor x, Tensor y,
                            const FusedNorm& norm);
/// All-gather: columns [borders[r], borders[r + 1]) of x (kF32) from rank r; at most kOutboxBytes per rank.
void LaunchAllGatherColumns(const Launcher& on, const RankLinks& links, const int64_t* borders, Tensor x);

}  // namespace ringside::cuda
