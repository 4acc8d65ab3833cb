// How large an engine is, and what it counts. Plain values.
#pragma once

#include <cstdint>

#include "kernels/tensor.h"

namespace ringside {

struct EngineOptions {
  static constexpr int64_t kUsualTokens = 1024;  // tokens of a usual cache: decides the default number of slots

  int64_t slots = 8;              // most caches at once; 0 = what the memory holds of 1,024 tokens each
  int64_t kv_bytes = 0;           // memory of all caches; 0 = what is free, or where nobody knows or it is less, whole
                                  // windows in every slot
  int64_t memory_len = 2048;      // largest window of a timeline, in tokens, pinned ones not counted
  bool fits_window = false;       // less where the memory of the caches holds no whole window (FitWindow)
  int64_t pinned_max = 256;       // most pinned tokens of a timeline
  int64_t session_len = 1 << 20;  // most tokens of a timeline, counted exactly
  int64_t prefill_chunk = 256;    // most rows of one sequence in a step; a full ring may take fewer
  int64_t step_tokens = 256;      // most prefill rows of a step
  double max_step_ms = 100;       // a step that also decodes takes fewer, so that it should not last longer
  int64_t row_tile = 1;           // rows that the device's products take at once (StepLimits::tile)
  int64_t rebuild_windows = 0;    // a lost cache is rebuilt from so many windows; 0 = as many as make it exact
  int64_t queue_limit = 256;      // turns of one account alone that may wait for a slot (QueueShares)
  DType kv_dtype = DType::kF16;
};

struct EngineStats {
  int64_t slots = 0, slots_used = 0, turns_running = 0, turns_waiting = 0;
  uint64_t steps = 0, tokens_prefilled = 0, tokens_reused = 0, tokens_decoded = 0, tokens_evicted = 0;
  uint64_t tokens_shared = 0;              // of those reused, taken over from other conversations' slots
  uint64_t rebuilds = 0, slots_taken = 0;  // slots taken from idle sequences
  int64_t kv_bytes = 0;                    // memory of all caches
  int64_t kv_bytes_used = 0;               // of it, promised to those in slots
  uint64_t turns_gave_way = 0;             // times that a running turn's cache had to leave for want of memory
  uint64_t turns_preempted = 0;            // times that one gave its slot to an account with fewer running turns

  uint64_t written_back = 0;                  // caches copied in the background, before their slots were wanted
  uint64_t captures = 0, captured_bytes = 0;  // caches copied from their slots, and what had to be copied for them
  double capture_ms = 0;                      // of all captures: what they took of the engine's time
  int64_t unsaved = 0, unsaved_bytes = 0;     // of the last SaveAll: caches that the tiers have not been given yet
  uint64_t caches_dropped = 0;                // left their slots unsaved: nothing had room for them
  uint64_t saves_refused = 0;                 // the tiers had too much to do; that cache was not saved
  uint64_t restores_host = 0, restores_disk = 0, restored_bytes = 0;
  double restore_ms = 0;                 // of all restores: from asking the tiers to the end of the copy into the slot
  uint64_t recomputed_instead = 0;       // stored caches not asked for because computing was estimated to be faster
  uint64_t fetches_late = 0;             // asked for, but the turn computed its own, or was over, before the answer
  uint64_t fetches_failed = 0;           // asked for, but lost, damaged or of another model or window
  double prefill_tokens_per_second = 0;  // measured, of recent steps; 0 = none yet
};

}  // namespace ringside
