// The highest logit of rows whose columns are shared by ranks: each finds its own, in kHighestParts parts of every row,
// and all hear of all parts. So a token that is chosen greedily costs a message of 128 bytes a rank, not all logits.
// Ties go to the lowest id; a row that holds NaN or +inf, or nothing that is finite, fails (kernels/token_choice.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ranks/rank_links.h"
#include "kernels/token_choice.h"

namespace ringside::cuda {

constexpr int kHighestParts = 8;

/// Of a part of a row, as it travels: the number of the call beside each half, as in RankLinks' inboxes.
struct alignas(16) HighestLogit {
  float logit = 0;  // NaN: the part holds what cannot be chosen from; -inf: no token
  uint32_t call = 0;
  int32_t id = 0;
  uint32_t same_call = 0;
};

/// to [rows][kHighestParts] = of `logits` (kF32), the columns of tokens first, first + 1 ...
void LaunchFindHighest(const Launcher& on, Tensor logits, int64_t first, HighestLogit* to);
/// The same into all ranks' inboxes; LaunchChooseHighest, which must follow, ends the call.
void LaunchTellHighest(const Launcher& on, const RankLinks& links, Tensor logits, int64_t first);

/// chosen[r], which may be pinned host memory, and ids[r] = the highest of all ranks' parts of row r: from the inbox,
/// or from `message` [ranks][rows][kHighestParts].
void LaunchChooseHighest(const Launcher& on, const RankLinks& links, int64_t rows, ChosenToken* chosen, int32_t* ids);
void LaunchChooseHighest(const Launcher& on, const HighestLogit* message, int ranks, int64_t rows, ChosenToken* chosen,
                         int32_t* ids);

}  // namespace ringside::cuda
