// Moves the caches of sequences to the tiers and back: the choice between loading and recomputing, capture, restore,
// and statistics. Without tiers it saves and finds nothing. Owned by the engine loop. THREAD: engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/saved_origins.h"
#include "engine/engine.h"
#include "engine/sequence.h"

namespace ringside {

class SequenceStorage {
 public:
  /// `counts` receives the statistics. REQUIRES: all references outlive it.
  SequenceStorage(const EngineStorage& storage, SlabMemory& memory, const Clock& clock, EngineStats* counts)
      : storage_(storage), memory_(memory), clock_(clock), counts_(*counts) {}
  ~SequenceStorage();

  enum class Saved {
    kYes,
    kNothing,  // no tiers, no owner, an empty cache, or the first window of a shortened replay
    kRefused,  // the tiers have no room or are too busy, or there is no pinned memory
    kCopying,  // in progress: see CollectSaved
  };
  /// Starts another round of the engine thread.
  void BeginRound() { copied_in_round_ = 0; }
  /// False if the engine thread makes copies itself and has reached this round's limit.
  bool MayCopyMore() const;
  /// Saves the sequence's cache under `owner`, copying only changes since the last save. Waits neither for the copy nor
  /// for storage; the sequence may be used at once. kAlways copies even without room: the process is about to end.
  enum class Effort { kIfRoom, kAlways };
  Saved Save(const std::string& owner, Sequence& sequence, Effort effort = Effort::kIfRoom);
  /// As Save, under a name that is not the cache's own: the next Save copies everything again.
  Saved SaveCopy(const std::string& owner, Sequence& sequence);
  /// True if a save of this cache would be kept now.
  bool Keeps(const std::string& owner, const KvCache& cache) const;
  /// True if host memory has room for this cache in addition to all copies in progress, without an eviction.
  bool HasSpareRoomFor(const KvCache& cache) const;
  /// True while a copy out of this cache, or for this owner, is in progress.
  bool Saves(const KvCache* cache) const;
  bool Saves(const std::string& owner) const;
  /// True while a copy into this cache is in progress.
  bool Loads(const KvCache* cache) const;
  /// Estimated remaining time of the copy into this cache and of those before it, at the best rate seen; 0 = no copy,
  /// infinite = no rate yet.
  double LoadingNs(const KvCache* cache) const;
  /// True while any copy is in progress.
  bool busy() const { return !saves_.empty() || !loads_.empty(); }
  /// Results of saves whose copies are done; with `wait`, of all saves.
  struct Outcome {
    const KvCache* cache;
    Saved saved;
    bool current;  // the cache has not changed since
  };
  std::vector<Outcome> CollectSaved(bool wait);
  /// Caches that are completely loaded, with the total time since the request to the tiers.
  struct Loaded {
    const KvCache* cache;
    double ms;
  };
  std::vector<Loaded> CollectLoaded();
  /// Cancels copies for this owner and out of this cache, and ignores copies into it.
  void Forget(const std::string& owner, const KvCache* cache);

  /// Decides whether to fetch `owner`'s cache, which saves `tokens` tokens of prefill, and the time limit.
  struct FetchPlan {
    bool stored = false;  // there is one
    bool ask = false;     // loading should not be slower than recomputing
    int64_t deadline_ns = 0;
  };
  FetchPlan PlanFetch(const std::string& owner, int64_t tokens);
  /// Completes a snapshot from the tiers.
  void AttachOrigins(Snapshot* snapshot) const { origins_.Attach(snapshot); }
  /// Starts to load the tiers' answer into the sequence's cache, which then continues at position `wanted`, and returns
  /// the time since the request. `present` as in Snapshot::BeginRestore. nullopt, and an empty cache, if the answer is
  /// an error, damaged, or does not fit. REQUIRES: the cache is empty and has the wanted window.
  std::optional<double> Restore(const Result<FetchedSnapshot>& fetched, SlabRange present,
                                const RingWindow& window, int adapter, int64_t wanted, Sequence& sequence);

  /// Records the speed of a prefill step.
  void NotePrefill(int64_t tokens, int64_t took_ns);

 private:
  struct PendingSave {
    std::string owner;  // "" = no longer wanted
    KvCache* cache;
    uint64_t snapshot;  // its id
    PendingCapture capture;
  };
  struct PendingLoad {
    const KvCache* cache;
    bool host;
    double ms;         // before the copies started
    int64_t begin_ns;  // start of the copies
    PendingRestore restore;
  };
  Saved Offer(const std::string& owner, Sequence& sequence, const Snapshot* base, Effort effort);
  /// True if the tiers would keep a copy of this cache and, on a device that copies into pinned memory, enough of that
  /// is free: a copy into pageable memory would block the engine thread.
  bool HasRoomFor(const std::string& owner, const KvCache& cache, const Snapshot* base) const;
  Saved Store(PendingSave save);
  void NoteLoaded(const PendingLoad& load, double ms);

  const EngineStorage& storage_;
  SlabMemory& memory_;
  const Clock& clock_;
  EngineStats& counts_;
  std::vector<PendingSave> saves_;  // oldest first
  std::vector<PendingLoad> loads_;  // oldest first; copied one at a time
  int64_t loaded_ns_ = 0;           // end of the last load
  double bytes_per_ns_ = 0;         // best rate
  int64_t saving_bytes_ = 0;        // all snapshots in saves_
  int64_t copied_in_round_ = 0;     // out of slots
  SavedOrigins origins_;
};

}  // namespace ringside
