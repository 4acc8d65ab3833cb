// Argmax over rows whose columns are split over ranks. Each rank reduces its columns to kArgmaxParts parts per row,
// and all ranks receive all parts. So greedy sampling costs a message of 128 bytes per rank and row instead of all
// logits. Ties go to the lowest id; a row with NaN or +inf, or without any finite logit, fails
// (kernels/row_sampling_params.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ranks/rank_links.h"
#include "kernels/row_sampling_params.h"

namespace ringside::cuda {

constexpr int kArgmaxParts = 8;

/// A part of a row in transit. Each half carries the call number, as in RankLinks' inboxes.
struct alignas(16) ArgmaxCandidate {
  float logit = 0;  // NaN: the part has an unusable logit; -inf: no token
  uint32_t call = 0;
  int32_t id = 0;
  uint32_t same_call = 0;
};

/// Reduces `logits` (kF32), whose columns are tokens first, first + 1 ..., to [rows][kArgmaxParts].
void LaunchLocalArgmax(const Launcher& on, Tensor logits, int64_t first, ArgmaxCandidate* to);
/// As LaunchLocalArgmax, into all ranks' inboxes. LaunchSampleGreedy must follow and ends the call.
void LaunchPublishArgmax(const Launcher& on, const RankLinks& links, Tensor logits, int64_t first);

/// Reduces all ranks' parts of row r to sampled[r], which may be pinned host memory, and ids[r]. The parts come from
/// the inbox, or from `message` [ranks][rows][kArgmaxParts].
void LaunchSampleGreedy(const Launcher& on, const RankLinks& links, int64_t rows, SampledToken* sampled, int32_t* ids);
void LaunchSampleGreedy(const Launcher& on, const ArgmaxCandidate* message, int ranks, int64_t rows,
                        SampledToken* sampled, int32_t* ids);

}  // namespace ringside::cuda
