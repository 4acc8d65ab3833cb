// Which model to load next, and which one makes room: a pure function of the models' states. Models are loaded in the
// order of their oldest waiting turn. Room is made by unloading the least recently used idle model. If none is idle,
// the model that has been loaded for longest is held once its time slice is over: its new turns wait, its running ones
// end, and then it is idle. So two models that are asked in turns each get their slice. THREAD: any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ringside {

/// A model as the plan sees it.
struct SwapModel {
  bool loaded = false;
  int64_t running = 0;              // turns in its engine
  std::optional<int64_t> waits_ns;  // arrival of its oldest waiting turn
  int64_t used_ns = 0;              // end of its last turn, or its load
  int64_t loaded_ns = 0;
  int64_t bytes = 0;  // memory that it needs, or has
};

struct SwapLimits {
  int64_t models = 1;  // loaded at once
  int64_t bytes = 0;   // of all of them
  int64_t slice_ns = 0;
};

struct SwapPlan {
  std::optional<size_t> load, unload;  // at most one
  std::optional<size_t> held;          // its new turns wait
  std::optional<int64_t> again_ns;     // plan again then, if nothing happens before
};

/// REQUIRES: no load or unload in progress; each model that waits fits alone.
SwapPlan PlanSwap(std::span<const SwapModel> models, const SwapLimits& limits, int64_t now_ns);

}  // namespace ringside
