// A timeline as the engine knows it: its sequence, its cache if it has a slot, and its turns. Plain data, owned by
// SlotTable. THREAD: engine.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "cache/store/tiered_store.h"
#include "engine/sequence.h"
#include "engine/turn_request.h"
#include "engine/turns/running_turn.h"

namespace ringside {

/// A stored cache that queued turns wait for; see CacheFetches.
struct PendingFetch {
  uint64_t ticket = 0;                                        // 0 = not requested yet
  int64_t deadline_ns = std::numeric_limits<int64_t>::max();  // after it the turn recomputes
  std::optional<Result<FetchedSnapshot>> answer;
  bool forked = false;  // a copy under the turn's owner was requested
  int64_t bytes = 0;    // size of the stored cache, once requested
  // Of the slab of the timeline's cache: shared pages that have the answer's rows.
  SlabRange present = {};
};

/// What becomes of a slot once its cache has been saved. The first three are cancelled if the timeline is wanted
/// meanwhile.
enum class EvictionMode { kNo, kIfSaved, kAnyway, kForced };

struct Slot {
  TimelineId id = 0;
  std::unique_ptr<Sequence> sequence;
  std::string owner, tenant;    // of its last turn
  RunningTurn* turn = nullptr;  // its running turn
  int64_t waiting = 0;          // number of its queued turns
  uint64_t last_used = 0;       // step number
  int64_t steps = 0;            // steps of its turn since it got the slot
  int64_t prompt_steps = 0;     // steps whose rows are recomputed if the cache is lost
  int64_t idle_since_ns = 0;
  bool continued = false;                     // a turn has continued earlier tokens
  bool parked = false;                        // to be saved and dropped when idle
  int64_t write_back_ns = 0;                  // earliest time of a write-back, if idle
  EvictionMode eviction = EvictionMode::kNo;  // while its cache is being saved
  bool unfilled = false;                      // the cache is empty: its memory was in transit
  std::optional<PendingFetch> fetch;          // for the queued turns

  /// True if it has a cache in its last valid state.
  bool filled() const { return sequence->has_cache() && !unfilled; }
  bool busy() const { return turn != nullptr || waiting > 0; }
  /// True if its cache is being evicted and not wanted again.
  bool is_evicting() const { return eviction == EvictionMode::kForced || (eviction != EvictionMode::kNo && !busy()); }
};

}  // namespace ringside
