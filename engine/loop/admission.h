// Admission: gives queued turns slots and memory, and prepares their caches. Chooses what leaves for them: idle caches,
// which are evicted at once, and running turns, which are preempted after the current step. Owns the state of one round
// of admissions. Owned by EngineLoop. THREAD: engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/engine_options.h"
#include "engine/loop/cache_eviction.h"
#include "engine/loop/cache_fetches.h"
#include "engine/loop/prefix_sharing.h"
#include "engine/loop/slot_table.h"
#include "engine/loop/turn_limits.h"
#include "engine/loop/turn_queue.h"
#include "engine/model/network.h"
#include "engine/sequence_storage.h"
#include "engine/turns/running_turn.h"

namespace ringside {

class Admission {
 public:
  /// What admission uses. REQUIRES: all outlive it.
  struct Parts {
    Network& network;
    const Tokenizer& tokenizer;
    const EngineOptions& options;
    const Clock& clock;
    const TurnLimits& limits;
    SlotTable& slots;
    TurnQueue& queue;
    CacheFetches& fetches;
    PrefixSharing& prefixes;
    CacheEviction& eviction;
    const SequenceStorage& sequences;
    EngineStats& counts;
  };
  explicit Admission(const Parts& parts) : parts_(parts) {}

  /// Starts a round: admits queued turns, each tenant's oldest first, while there are slots. A turn whose timeline has
  /// a slot overtakes those that wait for one; a turn whose cache is being fetched lets others pass.
  void AdmitWaiting();
  /// True if the last round found no room for a queued turn, even by an eviction or a preemption.
  bool is_full() const { return no_victim_ && !parts_.queue.empty(); }
  /// True if AdmitWaiting has chosen running turns to be preempted.
  bool has_victims() const { return !preempted_.empty(); }
  /// Preempts them, and admits queued turns if slots are free at once. REQUIRES: no step is in flight, and turns that
  /// ended with it are retired.
  void PreemptVictims();

 private:
  /// A running turn chosen to be preempted for a turn of `tenant`, which is charged `charge` tokens.
  struct Preemption {
    RunningTurn* turn;
    std::string tenant;
    int64_t charge;
  };

  /// Takes the turn if it can run or end (kBusy if its timeline is busy). False = no slot.
  bool Admit(std::unique_ptr<RunningTurn>& turn);
  /// Ends a turn that waits for its slot.
  void Refuse(Slot& slot, std::unique_ptr<RunningTurn> turn, Status error);
  /// Starts the turn on its timeline's cache, or continues it after a preemption. `restore_ms`: if it was restored.
  void Start(Slot& slot, std::unique_ptr<RunningTurn> turn, std::optional<double> restore_ms);
  /// Gives the turn memory for its cache, and a slot if it has none: from free slots, or by evicting the least recently
  /// used idle timelines, which are saved first. `history`: the timeline whose cache it branches off, or null. ERRORS:
  /// kOverloaded: the victims are busy or still being copied out, try again; anything else is permanent.
  Status AllocateMemory(Slot& slot, RunningTurn& turn, Slot* history, const PrefixSharing::Donor& donor);
  /// Lends the slots and the memory of the turn's beams, which are available.
  Status AttachBranches(RunningTurn& turn);
  /// True if the memory of the turn's cache is backed. Makes running turns wait for it only briefly.
  bool IsMemoryCommitted(const Slot& slot, const RunningTurn& turn);
  /// True if `bytes` and `wanted` slots are free, beyond the next needs of running turns and of turns ahead in the
  /// queue. Otherwise evicts idle caches until enough is in transit.
  bool MakeRoom(const Slot& slot, const RunningTurn& turn, int64_t bytes, int64_t wanted);
  /// True if these slots and bytes will be free once all evictions in progress are done.
  bool WillBeFree(int64_t slots, int64_t bytes) const;
  /// Picks the next victim for this queued turn (PickVictim); nullopt = none.
  std::optional<Preemption> PickRunningVictim(const RunningTurn& turn) const;
  /// The running turn as PickVictim sees it, without its tenant. `chosen`: it is already a victim.
  SlotHolder HolderOf(const RunningTurn& running, const RunningTurn& turn, bool chosen) const;

  const Parts parts_;
  int64_t unplaced_turns_ = 0;              // turns that found no slot in this round of admissions
  int64_t unplaced_bytes_ = 0;              // and the bytes they wait for
  bool no_victim_ = false;                  // no victim is available either
  int64_t memory_wait_us_ = 0;              // rest of kMemoryWaitUs in this round
  std::vector<Preemption> preempted_;       // chosen in this round of admissions, still running
  std::vector<std::string_view> expected_;  // tenants of turns whose room is in transit
};

}  // namespace ringside
