// How the caches of sequences get to the tiers and back: whether to load or to compute again, capture, restore, and
// what all of that cost. Without tiers it saves nothing and finds nothing. Owned by the engine loop; engine thread
// only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/sequence.h"

namespace ringside {

class SequenceStorage {
 public:
  /// Counts what it does in `counts`, which outlives it, as do the others.
  SequenceStorage(const EngineStorage& storage, SlabMemory& memory, const Clock& clock, EngineStats* counts)
      : storage_(storage), memory_(memory), clock_(clock), counts_(*counts) {}
  ~SequenceStorage();

  enum class Saved {
    kYes,
    kNothing,  // no tiers, no owner, an empty cache or the first window of a shortened replay
    kRefused,  // the tiers would not keep it or have too much to do, or there is no pinned memory to copy it into
    kCopying,  // begun: TakeSaved tells
  };
  /// The engine's thread starts another round.
  void BeginRound() { copied_in_round_ = 0; }
  /// False where the engine's thread makes the copies itself and has reached this round's limit.
  bool MayCopyMore() const;
  /// Puts what the sequence's cache holds where `owner` can find it, copying only what has changed since the last time.
  /// Waits neither for the copy from the device nor for storage; the sequence may be used at once. kAlways copies it
  /// even if there is no room: the process is about to end.
  enum class Effort { kIfRoom, kAlways };
  Saved Save(const std::string& owner, Sequence& sequence, Effort effort = Effort::kIfRoom);
  /// As Save, under a name that is not the cache's own: the next Save to its own copies everything again.
  Saved SaveCopy(const std::string& owner, Sequence& sequence);
  /// Whether a save of this cache now would be kept.
  bool Keeps(const std::string& owner, const KvCache& cache) const;
  /// Whether host memory has room for this cache beside all copies under way, and evicts nothing for it.
  bool HasSpareRoomFor(const KvCache& cache) const;
  /// True while a copy out of this cache, or for this owner, is under way.
  bool Saves(const KvCache* cache) const;
  bool Saves(const std::string& owner) const;
  /// True while one into it is.
  bool Loads(const KvCache* cache) const;
  /// How long the copy into this cache, and those before it, should still take at the best rate seen; 0 = there is
  /// none, infinite = no rate was seen.
  double LoadingNs(const KvCache* cache) const;
  /// True while anything is copied.
  bool busy() const { return !saves_.empty() || !loads_.empty(); }
  /// What came of saves whose copies are done by now; with `wait`, of all.
  struct Outcome {
    const KvCache* cache;
    Saved saved;
    bool current;  // the cache is still as it was saved
  };
  std::vector<Outcome> TakeSaved(bool wait);
  /// Caches that are all in by now, and how long it took in all since the tiers were asked.
  struct Loaded {
    const KvCache* cache;
    double ms;
  };
  std::vector<Loaded> TakeLoaded();
  /// What is being copied for this owner, or out of this cache, is not stored after all; nor is what comes into it
  /// wanted.
  void Forget(const std::string& owner, const KvCache* cache);

  /// Whether to ask the tiers for `owner`'s cache, to spare `tokens` tokens of computing, and how long to wait for it.
  struct FetchPlan {
    bool stored = false;  // there is one
    bool ask = false;     // and loading it should not be slower than computing
    int64_t deadline_ns = 0;
  };
  FetchPlan PlanFetch(const std::string& owner, int64_t tokens);
  /// Begins to put what the tiers answered into the sequence's cache, which is empty and has the window that is wanted,
  /// and returns how long that took so far. nullopt, and an empty cache, if it was not there, damaged, or does not fit.
  std::optional<double> Restore(const Result<FetchedSnapshot>& fetched, const RingWindow& window, int adapter,
                                Sequence& sequence);

  /// Notes how fast a step that prefills was.
  void NotePrefill(int64_t tokens, int64_t took_ns);

 private:
  struct PendingSave {
    std::string owner;  // "" = no longer wanted
    KvCache* cache;
    uint64_t snapshot;  // its number
    PendingCapture capture;
  };
  struct PendingLoad {
    const KvCache* cache;
    bool host;
    double ms;         // until the copies began
    int64_t begin_ns;  // of the copies
    PendingRestore restore;
  };
  Saved Offer(const std::string& owner, Sequence& sequence, const Snapshot* base, Effort effort);
  /// Whether the tiers would keep a copy of this cache and, where the device copies into pinned memory, there is enough
  /// of that: a copy into other memory holds up the engine's thread.
  bool HasRoomFor(const std::string& owner, const KvCache& cache, const Snapshot* base) const;
  Saved Store(PendingSave save);
  void NoteLoaded(const PendingLoad& load, double ms);

  const EngineStorage& storage_;
  SlabMemory& memory_;
  const Clock& clock_;
  EngineStats& counts_;
  std::vector<PendingSave> saves_;  // oldest first
  std::vector<PendingLoad> loads_;  // oldest first; one copy at a time is made
  int64_t loaded_ns_ = 0;           // when the last one was done
  double bytes_per_ns_ = 0;         // of the fastest
  int64_t saving_bytes_ = 0;        // of all snapshots in saves_
  int64_t copied_in_round_ = 0;     // out of slots
};

}  // namespace ringside
