// Argmax over rows whose columns are split over ranks. Each rank reduces its columns to kHighestParts parts per row,
// and all ranks receive all parts. So greedy sampling costs a message of 128 bytes per rank and row instead of all
// logits. Ties go to the lowest id; a row with NaN or +inf, or without any finite logit, fails
// (kernels/token_choice.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ranks/rank_links.h"
#include "kernels/token_choice.h"

namespace ringside::cuda {

constexpr int kHighestParts = 8;

/// A part of a row in transit. Each half carries the call number, as in RankLinks' inboxes.
struct alignas(16) HighestLogit {
  float logit = 0;  // NaN: the part has an unusable logit; -inf: no token
  uint32_t call = 0;
  int32_t id = 0;
  uint32_t same_call = 0;
};

/// Reduces `logits` (kF32), whose columns are tokens first, first + 1 ..., to [rows][kHighestParts].
void LaunchFindHighest(const Launcher& on, Tensor logits, int64_t first, HighestLogit* to);
/// As LaunchFindHighest, into all ranks' inboxes. LaunchChooseHighest must follow and ends the call.
void LaunchTellHighest(const Launcher& on, const RankLinks& links, Tensor logits, int64_t first);

/// Reduces all ranks' parts of row r to sampled[r], which may be pinned host memory, and ids[r]. The parts come from
/// the inbox, or from `message` [ranks][rows][kHighestParts].
void LaunchChooseHighest(const Launcher& on, const RankLinks& links, int64_t rows, ChosenToken* sampled, int32_t* ids);
void LaunchChooseHighest(const Launcher& on, const HighestLogit* message, int ranks, int64_t rows, ChosenToken* sampled,
                         int32_t* ids);

}  // namespace ringside::cuda
