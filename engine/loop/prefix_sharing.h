// Prefix sharing: common system messages and forked histories. A conversation reuses the rows of another one of the
// same tenant, by a copy on the device or by a branch. Never across tenants: the time to first token would reveal other
// tenants' prompts. Never across adapters either, because their keys and values differ. Without state. Owned by
// EngineLoop. THREAD: engine.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/engine_options.h"
#include "engine/loop/cache_fetches.h"
#include "engine/loop/slot_table.h"
#include "engine/sequence_storage.h"
#include "engine/turns/running_turn.h"

namespace ringside {

class SlabMemory;

class PrefixSharing {
 public:
  /// `counts` receives the statistics. REQUIRES: all references outlive it.
  PrefixSharing(SlabMemory& memory, SlotTable& slots, CacheFetches& fetches, const SequenceStorage& sequences,
                EngineStats* counts)
      : memory_(memory), slots_(slots), fetches_(fetches), sequences_(sequences), counts_(*counts) {}

  /// A timeline of the same tenant, and the number of the turn's first tokens that its slot has.
  struct Donor {
    Slot* slot = nullptr;  // null = none has enough
    int64_t tokens = 0;
    bool of_answer = false;  // its rows are those of the tiers' answer, whatever the tokens
  };
  /// The one with the longest prefix of the turn.
  Donor FindDonor(const Slot& slot, const RunningTurn& turn) const;
  /// True if another slot has a much longer prefix of the turn than the timeline's own cache: a client that first
  /// prefills instructions and tools alone (generate: false) then sends a history that another timeline has.
  bool HasMuchLongerDonor(const Slot& slot, const RunningTurn& turn) const;
  /// The timeline in a slot that the turn's cache can branch off; null = none.
  Slot* FindHistory(const Slot& slot, const RunningTurn& turn) const;
  /// True if a running turn is about to compute a much longer prefix of the turn than any slot has.
  bool ShouldAwait(const Slot& slot, const RunningTurn& turn) const;
  /// Makes the timeline's empty cache a branch of `history`'s. REQUIRES: FindHistory's result, still in its slot.
  void BranchOff(Slot& slot, const RunningTurn& turn, const Slot& history);
  /// The timeline with which a new cache shares pages: `donor`, or one that has the same rows as the tiers' answer if
  /// that has the longer prefix.
  Donor PageDonor(const Slot& slot, const RunningTurn& turn, const Donor& donor) const;
  /// Lets the cache share these pages. REQUIRES: PageDonor's result; no reservation.
  void SharePages(Slot& slot, KvCache* cache, const Donor& pages);
  /// False if the cache shares pages with a donor that is no longer one, and not those of the tiers' answer.
  bool CanFill(const Slot& slot, const RunningTurn& turn) const;
  /// Fills the timeline's empty cache from another slot or from the tiers' answer, whichever has the longer prefix.
  /// Returns the restore time, if it restored.
  std::optional<double> Fill(Slot& slot, const RunningTurn& turn);

 private:
  /// Number of the turn's first tokens that can be copied from the other slot.
  int64_t SharedTokensWith(const Slot& other, const Slot& slot, const RunningTurn& turn) const;
  /// Number of the turn's first tokens in the tiers' answer, up to a position at which the cache can continue.
  int64_t StoredTokens(const Slot& slot, const RunningTurn& turn) const;
  /// Number of the turn's first tokens that `other` computes and has not computed yet; 0 = none.
  int64_t PromisedTokens(const RunningTurn& other, const RunningTurn& turn) const;
  /// Gives the timeline's empty cache the donor's rows of the turn's first tokens: copies those in pages that are not
  /// shared.
  void Share(Slot& slot, const Donor& donor, bool own);

  SlabMemory& memory_;
  SlotTable& slots_;
  CacheFetches& fetches_;
  const SequenceStorage& sequences_;
  EngineStats& counts_;
};

}  // namespace ringside
