// Stages the attention of a step: checks segments, stages per-row data, cuts rows into tiles of up to 16 queries and
// chooses the split-K factor over the keys. Layers with equal properties share one staged plan. Owned by the backend.
// THREAD: one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/attention/prefix_plan.h"
#include "kernels/cuda/memory/device_memory.h"
#include "kernels/cuda/steps/step_recorder.h"

namespace ringside::cuda {

/// The slab that holds the positions before a branch.
inline const void* HistoryOf(const AttentionSegment& s) { return s.history != nullptr ? s.history : s.slab; }

/// A layer's window (ScoreTraits).
struct SeenWindow {
  int64_t size = 0;  // 0: no key is masked by a window
  bool chunked = false;

  /// The oldest position within the window of a query at `position`; may be negative.
  int64_t Oldest(int64_t position) const { return chunked ? position - position % size : position - size + 1; }

  friend bool operator==(const SeenWindow&, const SeenWindow&) = default;
};

struct StagedAttention {
  AttentionPlan plan;
  PrefixPlan prefixes;  // only with 16- and 8-bit caches, without traits
};

class AttentionStaging {
 public:
  /// `fixed_order`: a row's bits must not depend on the other rows of its step. Memory and recorder are borrowed.
  AttentionStaging(bool fixed_order, DeviceMemory* memory, StepRecorder* recorder)
      : fixed_order_(fixed_order), memory_(memory), recorder_(recorder) {}

  /// The attention plan that all layers of this kind share; staged on first use.
  StagedAttention PlanFor(const AttentionArgs& args);

 private:
  /// The properties by which layers share one staged attention plan.
  struct PlanKey {
    int64_t heads = 0;
    KvLayer sizes;
    int32_t wide_queries = 0;
    int64_t tile_heads = 0;
    SeenWindow window;
    bool traits = false;   // soft cap, slopes, sinks or biases are used, or the rows are an encoder's
    bool weights = false;  // dimensions of queries have factors
    VisibleKeys seen = VisibleKeys::kBefore;
    bool queries_only = false;
    const float* angles = nullptr;        // own_cos on the host; null: no rotation
    const float* query_scales = nullptr;  // on the host
    friend bool operator==(const PlanKey&, const PlanKey&) = default;
  };
  /// Attention plans staged for the current step.
  struct StagedStep {
    uint64_t step = 0;     // 0: none
    uint64_t epoch = 0;    // StepRecorder::staging_epoch
    int64_t farthest = 0;  // farthest key that any row sees, windows ignored
    int64_t newest = 0;    // largest position of a row
    std::vector<std::pair<PlanKey, StagedAttention>> plans;
  };

  StagedAttention StageSegments(const AttentionArgs& args, const PlanKey& layers);

  const bool fixed_order_;
  DeviceMemory* const memory_;
  StepRecorder* const recorder_;
  StagedStep staged_;
};

}  // namespace ringside::cuda
