#include "engine/loop/prefix_sharing.h"

#include <algorithm>

#include "cache/kv_branch.h"
#include "kernels/slab_memory.h"

namespace ringside {
namespace {

// A copy moves whole tiles with one kernel launch: cheaper than computing the rows of one tile on any device.
constexpr int64_t kMinSharedTokens = KvShape::kTile;
// A turn waits for another one that computes their common prefix, if that is this much longer than the best prefix in a
// slot. A timeline's own cache is replaced by a copy of another one's prefix, if that is this much longer.
constexpr int64_t kMinAwaitedTokens = 256;

/// False for a failed turn that still runs because its next step was launched ahead: its rows may be NaN.
bool HasSoundRows(const RunningTurn* turn) { return turn == nullptr || turn->finished() != FinishReason::kError; }

/// Whether the timeline's cache shares pages that have the rows of the tiers' answer.
bool HasRowsOfAnswer(const Slot& slot) { return slot.fetch && slot.fetch->answer && slot.fetch->present.end > 0; }

}  // namespace

int64_t PrefixSharing::SharedTokensWith(const Slot& other, const Slot& slot, const RunningTurn& turn) const {
  if (&other == &slot || other.tenant != turn.request().tenant) return 0;
  if (!HasSoundRows(other.turn)) return 0;
  const KvCache* own = slot.sequence->has_cache() && !slot.filled() ? slot.sequence->cache() : nullptr;
  const bool shares = own != nullptr && slots_.pool().shares(*own);
  if (shares && slots_.pool().SharedRange(*own, *other.sequence->cache()).end == 0) return 0;
  const int64_t shared = other.sequence->SharedPrefix(turn.timeline(), turn.max_reusable());
  if (shares && slots_.pool().ShareableBytes(*other.sequence->cache(), shared) < slots_.pool().SharedBytes(*own))
    return 0;
  // The rows of a cache that is still loading are not there yet.
  return shared == 0 || sequences_.Loads(other.sequence->cache()) ? 0 : shared;
}

PrefixSharing::Donor PrefixSharing::FindDonor(const Slot& slot, const RunningTurn& turn) const {
  Donor donor;
  for (Slot* other : slots_.cached()) {
    const int64_t shared = SharedTokensWith(*other, slot, turn);
    if (shared >= std::max(kMinSharedTokens, donor.tokens + 1)) donor = {other, shared};
  }
  return donor;
}

bool PrefixSharing::HasMuchLongerDonor(const Slot& slot, const RunningTurn& turn) const {
  if (!slot.filled() || slot.sequence->cache()->history() != nullptr) return false;
  const int64_t own = slot.sequence->SharedPrefix(turn.timeline(), turn.max_reusable());
  if (turn.max_reusable() < own + kMinAwaitedTokens) return false;  // most turns: only their new tokens are missing
  return FindDonor(slot, turn).tokens >= own + kMinAwaitedTokens;
}

int64_t PrefixSharing::PromisedTokens(const RunningTurn& other, const RunningTurn& turn) const {
  const TurnRequest& request = other.request();
  if (other.finished() || !other.clock().awaits_first_token() || request.tenant != turn.request().tenant) return 0;
  if (!(request.window == turn.request().window) || request.adapter != turn.request().adapter) return 0;
  if (other.sequence()->cache()->history() != nullptr) return 0;  // a branch cannot be a donor
  // Quick rejection of most turns: the common prefix must extend past the computed tokens.
  const auto computed = static_cast<size_t>(other.sequence()->computed());
  const auto& ours = turn.request().tokens;
  const bool is_whole = computed >= request.tokens.size();  // its last rows are in the step in flight
  if (!is_whole && (computed >= ours.size() || ours[computed] != request.tokens[computed])) return 0;
  const int64_t common = std::min(
      CommonPrefix(request.tokens, request.message_starts, ours, turn.request().message_starts, request.window.pinned),
      turn.max_reusable());
  return is_whole || static_cast<int64_t>(computed) < common ? common : 0;
}

bool PrefixSharing::ShouldAwait(const Slot& slot, const RunningTurn& turn) const {
  if (slot.filled()) return false;
  int64_t promised = 0;
  RunningTurn* promising = nullptr;
  for (const auto& other : slots_.running()) {
    const int64_t tokens = PromisedTokens(*other, turn);
    if (tokens > promised) promised = tokens, promising = other.get();
  }
  if (promised < kMinAwaitedTokens) return false;
  promising->sequence()->cache()->SetShared(promised);
  // Wait for a prefix in progress until it is complete: its last rows take a step or two.
  int64_t there = 0;
  for (const Slot* other : slots_.cached()) {
    if (other->turn == nullptr || !other->turn->clock().awaits_first_token())
      there = std::max(there, SharedTokensWith(*other, slot, turn));
  }
  return promised >= kMinAwaitedTokens + there;
}

Slot* PrefixSharing::FindHistory(const Slot& slot, const RunningTurn& turn) const {
  if (!turn.request().may_branch || turn.branches() > 0 || !slots_.has_branches()) return nullptr;
  Slot* history = nullptr;
  int64_t most = 0;
  for (Slot* other : slots_.cached()) {
    if (other == &slot || other->tenant != turn.request().tenant || other->eviction != EvictionMode::kNo) continue;
    if (!HasSoundRows(other->turn)) continue;
    if (other->turn != nullptr && other->turn->branches() > 0) continue;  // its beams' rows will be appended to it
    if (sequences_.Loads(other->sequence->cache())) continue;             // its rows are still loading
    const int64_t tokens = other->sequence->BranchPoint(turn.timeline(), turn.max_reusable());
    if (tokens > most) history = other, most = tokens;
  }
  return history;
}

void PrefixSharing::BranchOff(Slot& slot, const RunningTurn& turn, const Slot& history) {
  const int64_t tokens = history.sequence->BranchPoint(turn.timeline(), turn.max_reusable());
  ringside::BranchOff(memory_, slot.sequence->cache(), *history.sequence->cache(), tokens);
  slot.sequence->BranchedOff(*history.sequence, tokens);
  counts_.tokens_shared += static_cast<uint64_t>(tokens);
}

int64_t PrefixSharing::StoredTokens(const Slot& slot, const RunningTurn& turn) const {
  if (!slot.fetch || !slot.fetch->answer || !slot.fetch->answer->ok()) return 0;
  const SnapshotHeader& stored = (*slot.fetch->answer)->snapshot.header();
  const TimelineView timeline = turn.timeline();
  return stored.Floor(std::min(CommonPrefix(stored.tokens, stored.message_starts, timeline.tokens,
                                            timeline.message_starts, timeline.window.pinned),
                               turn.max_reusable()));
}

PrefixSharing::Donor PrefixSharing::PageDonor(const Slot& slot, const RunningTurn& turn, const Donor& donor) const {
  if (donor.tokens >= StoredTokens(slot, turn)) return donor;
  const Snapshot& stored = (*slot.fetch->answer)->snapshot;
  const RingWindow& window = stored.header().window;
  // Later rows would overwrite those in the pages.
  const bool wraps = stored.header().next - window.pinned > slots_.pool().shape().ring_rows();
  Donor out;
  for (Slot* other : slots_.cached()) {
    if (wraps || other->tenant != turn.request().tenant || !HasSoundRows(other->turn)) continue;
    const KvCache* cache = other->sequence->cache();
    if (cache->history() != nullptr || !(cache->ring().window() == window) || sequences_.Loads(cache)) continue;
    const int64_t tokens = stored.origins().Compare(cache->ring().origins()).common;
    if (tokens >= std::max(kMinSharedTokens, out.tokens + 1) && cache->ring().CanRollBack(tokens))
      out = {other, tokens, true};
  }
  return out;
}

void PrefixSharing::SharePages(Slot& slot, KvCache* cache, const Donor& pages) {
  const SlabRange range = slots_.pool().Share(cache, *pages.slot->sequence->cache(), pages.tokens);
  if (pages.of_answer) slot.fetch->present = {range.begin, range.end};
}

bool PrefixSharing::CanFill(const Slot& slot, const RunningTurn& turn) const {
  return !slots_.pool().shares(*slot.sequence->cache()) || HasRowsOfAnswer(slot) ||
         FindDonor(slot, turn).slot != nullptr;
}

std::optional<double> PrefixSharing::Fill(Slot& slot, const RunningTurn& turn) {
  const Donor donor = FindDonor(slot, turn);
  const int64_t stored = StoredTokens(slot, turn);
  std::optional<double> restore_ms;
  const bool shares_others = slots_.pool().shares(*slot.sequence->cache()) && !HasRowsOfAnswer(slot);
  if (!shares_others && (donor.slot == nullptr || donor.tokens < stored)) {
    restore_ms = fetches_.Restore(slot, turn.request(), stored);
  }
  if (donor.slot == nullptr || restore_ms) return restore_ms;
  Share(slot, donor, turn.request().forked_from != 0 || stored > 0);
  if (KvCache* cache = slot.sequence->cache(); cache->state().used()) {
    // The next conversation with this history finds a boundary where this one departs from it.
    cache->SetShared(donor.slot->sequence->CommonTokens(turn.timeline(), turn.max_reusable()));
  }
  return std::nullopt;
}

void PrefixSharing::Share(Slot& slot, const Donor& donor, bool own) {
  const Sequence& source = *donor.slot->sequence;
  const auto bytes = static_cast<int64_t>(slot.sequence->Adopt(source, donor.tokens, own));
  const KvCache &to = *slot.sequence->cache(), &from = *source.cache();
  const SlabRange pages = slots_.pool().SharedRange(to, from);
  for (const auto [begin, end] : {SlabRange{0, pages.begin}, SlabRange{pages.end, bytes}}) {
    if (begin == end) continue;
    memory_.CopyOnDevice(static_cast<std::byte*>(to.slab()) + begin, static_cast<std::byte*>(from.slab()) + begin,
                         static_cast<size_t>(end - begin));
  }
  counts_.tokens_shared += static_cast<uint64_t>(donor.tokens);
}

}  // namespace ringside
