// Requests to the tiers for stored caches: fetches for queued turns, which use memory outside every budget and are
// therefore bounded, and copies for forked timelines. Owned by EngineLoop. THREAD: engine, except Prefetch and Expect.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/loop/engine_message.h"
#include "engine/loop/slot_table.h"
#include "engine/loop/turn_queue.h"
#include "engine/overload/wait_control.h"
#include "engine/sequence_storage.h"

namespace ringside {

class CacheFetches {
 public:
  /// Receives an answer of the tiers. THREAD: any; it may be called after the engine has ended.
  using Deliver = std::function<void(FetchedMessage)>;
  /// `counts` receives the statistics. REQUIRES: all references outlive it.
  CacheFetches(const EngineStorage& storage, const NetworkShape& network, const Clock& clock, SlotTable& slots,
               TurnQueue& queue, SequenceStorage& sequences, EngineStats* counts, Deliver deliver)
      : storage_(storage),
        layers_(network.layers),
        recurrent_(!network.state.empty()),
        clock_(clock),
        slots_(slots),
        queue_(queue),
        sequences_(sequences),
        counts_(*counts),
        deliver_(std::move(deliver)) {}

  /// Estimates the turn's work before its first token, given the time per prompt token: its new tokens, if the cache of
  /// the earlier ones is in a slot or is loaded faster than recomputed, otherwise all that a recomputation needs. A
  /// timeline without an owner counts as being in a slot. Prefixes that other conversations share are not considered.
  /// THREAD: any.
  ExpectedPrompt Expect(const TurnRequest& request, double ns_per_token) const;
  /// Requests the cache of a queued turn from the tiers, once, if it may be there.
  void Request(Slot& slot, const TurnRequest& request);
  /// Number of requests so far; the tiers may have answered the last one already.
  uint64_t requests() const { return last_ticket_; }
  /// Stores the tiers' answer, if it is still wanted.
  void Take(FetchedMessage message);
  /// True while queued turns of the timeline wait for the answer.
  bool IsFetching(const Slot& slot) const;
  /// Cancels the pending fetch.
  void Cancel(Slot& slot);
  /// Starts to load the answer into the timeline's empty cache; returns the time since the request. nullopt if there is
  /// none, or if it is unusable. `wanted`: the position at which the turn continues.
  std::optional<double> Restore(Slot& slot, const TurnRequest& request, int64_t wanted);

  /// True if the tiers' copy of the timeline's cache continues the turn much later than the cache in its slot, because
  /// it has older boundaries of the recurrent state, and loading it takes less time.
  bool HasLongerCopy(const Slot& slot, const RunningTurn& turn) const;
  /// True if the timeline that it was forked from is in a slot.
  bool HasSourceInSlot(const TurnRequest& request) const;
  /// Gives the new owner a copy of the timeline's cache.
  void Fork(ForkMessage message);
  /// Makes the tiers' copies for forked timelines, except while a save of the source is in progress.
  void MakeForks();
  /// Forgets copies for this owner that are not made yet.
  void DropForks(const std::string& to_owner);
  /// Loads the owner's object into memory, if there are tiers. THREAD: any.
  void Prefetch(const std::string& owner) const;

 private:
  /// Tokens to compute without a cache.
  int64_t ReplayedTokens(const TurnRequest& request) const;
  /// True while the request must wait for a save or a fork that completes shortly.
  bool IsOnItsWay(const TurnRequest& request, bool forked) const;
  /// True if another fetched cache fits. Otherwise takes the place of the last queued turn that has one.
  bool MakePlace(Slot& slot, const TurnRequest& request, bool forked, bool first, int64_t bytes);
  /// Bytes of the turn's stored cache.
  int64_t StoredBytes(const TurnRequest& request, bool forked) const;
  /// Cancels the fetch of the last queued turn that has one, which asks again later. False if no turn after this one
  /// has one.
  bool CancelLastAfter(const Slot& slot);

  const EngineStorage& storage_;
  const int64_t layers_;
  const bool recurrent_;
  const Clock& clock_;
  SlotTable& slots_;
  TurnQueue& queue_;
  SequenceStorage& sequences_;
  EngineStats& counts_;
  const Deliver deliver_;
  uint64_t last_ticket_ = 0;
  int64_t fetches_ = 0;             // requested and neither used nor cancelled
  int64_t fetch_bytes_ = 0;         // bytes of these caches
  std::vector<ForkMessage> forks_;  // their sources are still being saved
};

}  // namespace ringside
