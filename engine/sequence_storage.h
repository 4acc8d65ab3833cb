// How the caches of sequences get to the tiers and back: whether to load or to compute again, capture, restore, and
// what all of that cost. Without tiers it saves nothing and finds nothing. Owned by the engine loop; engine thread
// only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/sequence.h"

namespace ringside {

class SequenceStorage {
 public:
  /// Counts what it does in `counts`, which outlives it, as do the others.
  SequenceStorage(const EngineStorage& storage, Backend& backend, const Clock& clock, EngineStats* counts)
      : storage_(storage), backend_(backend), clock_(clock), counts_(*counts) {}

  enum class Saved {
    kYes,
    kNothing,  // no tiers, no owner, an empty cache or the first window of a shortened replay
    kRefused,  // the tiers have too much to do
  };
  /// Puts what the sequence's cache holds where `owner` can find it, copying only what has changed since the last time.
  /// Blocks for the copy from the device, never for storage.
  Saved Save(const std::string& owner, Sequence& sequence);
  /// As Save, under a name that is not the cache's own: the next Save to its own copies everything again.
  Saved SaveCopy(const std::string& owner, Sequence& sequence);

  /// Whether to ask the tiers for `owner`'s cache, to spare `tokens` tokens of computing, and how long to wait for it.
  struct FetchPlan {
    bool stored = false;  // there is one
    bool ask = false;     // and loading it should not be slower than computing
    int64_t deadline_ns = 0;
  };
  FetchPlan PlanFetch(const std::string& owner, int64_t tokens);
  /// Puts what the tiers answered into the sequence's cache, which is empty and has the window that is wanted, and
  /// returns how long that took in all. nullopt, and an empty cache, if it was not there, damaged, or does not fit.
  std::optional<double> Restore(const Result<FetchedSnapshot>& fetched, const RingWindow& window, Sequence& sequence);

  /// Notes how fast a step that prefills was.
  void NotePrefill(int64_t tokens, int64_t took_ns);

 private:
  Saved Offer(const std::string& owner, Sequence& sequence, const Snapshot* base);

  const EngineStorage& storage_;
  Backend& backend_;
  const Clock& clock_;
  EngineStats& counts_;
};

}  // namespace ringside
