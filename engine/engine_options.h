// Sizes and counters of an engine. Plain values.
#pragma once

#include <cstdint>

#include "kernels/tensor.h"

namespace ringside {

/// Where draft tokens come from (engine/speculation/).
enum class Speculation {
  kOff,
  kNgram,  // earlier text of the conversation
  kMtp,    // also the network's draft layer, if it has one
};

struct EngineOptions {
  static constexpr int64_t kTypicalTokens = 1024;  // typical length of a cache: determines the default number of slots

  int64_t slots = 8;     // maximum number of caches; 0 = as the memory allows with 1,024 tokens each
  int64_t kv_bytes = 0;  // memory of all caches; 0 = the free memory, or whole windows in every slot if that is less or
                         // unknown
  int64_t memory_len = 2048;      // maximum window of a timeline in tokens, without the pinned ones
  bool fits_window = false;       // shrink memory_len if no whole window fits (FitWindow)
  int64_t pinned_max = 256;       // maximum number of pinned tokens of a timeline
  int64_t session_len = 1 << 20;  // maximum length of a timeline, counted exactly
  int64_t prefill_chunk = 256;    // maximum rows of a sequence in a step; fewer if the ring is full
  int64_t step_tokens = 256;      // maximum prefill rows of a step
  double target_itl_ms = 100;     // goal for the time between tokens at p99; bounds the prefill rows of a step
  int64_t row_tile = 1;           // M tile of the device's matmuls (StepLimits::tile)
  int64_t rebuild_windows = 0;    // windows replayed to rebuild a lost cache; 0 = until it is exact
  int64_t state_slots = 4;        // boundaries of recurrent state in a slab (StateSlots), at least 2
  int64_t queue_limit = 256;      // queued turns of a single tenant (QueueShares)
  double max_wait_s = 0;          // maximum predicted wait of an admitted turn (WaitLimit); 0 = no limit
  /// Ignored by a network without Network::samples_rows.
  Speculation speculation = Speculation::kOff;
  DType kv_dtype = DType::kF16;
};

struct EngineStats {
  int64_t slots = 0, slots_used = 0, turns_running = 0, turns_waiting = 0;
  uint64_t steps = 0, tokens_prefilled = 0, tokens_reused = 0, tokens_decoded = 0, tokens_evicted = 0;
  uint64_t tokens_drafted = 0;              // draft tokens that a step has verified
  uint64_t drafts_accepted = 0;             // part of tokens_drafted, and of tokens_decoded
  uint64_t tokens_shared = 0;               // part of tokens_reused that was copied from other conversations' slots
  uint64_t rebuilds = 0, slots_taken = 0;   // slots_taken: slots taken from idle sequences
  int64_t kv_bytes = 0;                     // memory of all caches
  int64_t kv_bytes_used = 0;                // part of kv_bytes reserved by caches in slots
  int64_t kv_bytes_shared = 0;              // more that they would take if each had its own copy of common prefixes
  uint64_t turns_preempted_for_memory = 0;  // preemptions for lack of memory
  uint64_t turns_preempted = 0;             // preemptions in favour of a tenant with fewer running turns

  uint64_t written_back = 0;                  // caches saved in the background before their slots were needed
  uint64_t captures = 0, captured_bytes = 0;  // snapshots captured, and the bytes copied for them
  double capture_ms = 0;                      // engine thread time of all captures
  int64_t unsaved = 0, unsaved_bytes = 0;     // last SaveAll: caches not given to the tiers yet
  uint64_t caches_dropped = 0;                // evicted unsaved: no tier had room
  uint64_t saves_refused = 0;                 // the tiers were too busy; the cache was not saved
  uint64_t restores_host = 0, restores_disk = 0, restored_bytes = 0;
  double restore_ms = 0;  // total of all restores, from the request to the tiers to the end of the copy into the slot
  uint64_t recomputed_instead = 0;       // stored caches not fetched because recomputation was estimated to be faster
  uint64_t fetches_late = 0;             // the turn recomputed or ended before the answer
  uint64_t fetches_failed = 0;           // fetched, but lost, damaged, or of another model or window
  double prefill_tokens_per_second = 0;  // recent average; 0 = none yet
  double prompt_wait_s = 0;              // predicted wait of a turn after all queued ones (WaitForecast)
  uint64_t turns_refused = 0;            // because of their predicted wait (max_wait_s)
};

}  // namespace ringside
