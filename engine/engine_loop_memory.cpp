// The engine loop's memory management: how much memory a turn gets before it starts, which caches are evicted for it,
// and which turns are preempted when there is none.
#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "engine/engine_loop.h"

namespace ringside {
namespace {

// Tokens of memory that a running turn gets ahead of need.
constexpr int64_t kAheadTokens = 64;
// This fraction of all memory is reserved for running turns when another turn starts.
constexpr int64_t kRunningShare = 64;

/// Makes a failed commit permanent: the pool counted the memory as free, so a device that refuses it now will refuse it
/// later, too.
Status Given(const Status& grown) { return grown.ok() ? grown : Unavailable(grown.message()); }

}  // namespace

Status EngineLoop::AllocateMemory(Slot& slot, RunningTurn& turn, const Slot* history) {
  if (slot.eviction == EvictionMode::kForced) return Overloaded("its cache is still being evicted");
  const RingWindow& window = turn.request().window;
  const int64_t branches = turn.branches(), branch_bytes = branches * BeamBytes(turn.request().max_tokens);
  int64_t bytes = BytesOf(turn);
  if (slot.sequence->has_cache()) {
    KvCache* cache = slot.sequence->cache();
    const int64_t more = std::max<int64_t>(0, bytes - pool_.reserved_bytes(*cache)) + branch_bytes;
    if (more > 0 && !MakeRoom(slot, turn, more, branches)) return Overloaded("no memory yet");
    RETURN_IF_ERROR(Given(pool_.Grow(cache, bytes)));
    return AttachBranches(turn);
  }
  // The snapshot from the tiers may be longer than the timeline, which was edited since.
  if (slot.fetch && slot.fetch->answer && slot.fetch->answer->ok()) {
    const SnapshotHeader& header = (*slot.fetch->answer)->snapshot.header();
    if (header.window == window) bytes = std::max(bytes, pool_.BytesFor(window, header.next));
  }
  if (history != nullptr) {
    const int64_t tokens = history->sequence->BranchPoint(turn.timeline(), turn.max_reusable());
    bytes = BranchBytes(turn.most_tokens() + 1 - KvCache::BranchAt(tokens, window.pinned));
  }
  if (!MakeRoom(slot, turn, bytes + branch_bytes, 1 + branches)) return Overloaded("no slot yet");
  // MakeRoom may have evicted it, if it had the only slot.
  if (history != nullptr && (!history->sequence->has_cache() || history->is_evicting()))
    return Overloaded("the parent cache was evicted before the branch was made");
  KvCache* cache = pool_.Lend(window);
  Status given = Given(pool_.Grow(cache, bytes));
  given.ok() ? AttachCache(slot, cache) : pool_.Release(cache);
  RETURN_IF_ERROR(std::move(given));
  return AttachBranches(turn);
}

Status EngineLoop::AttachBranches(RunningTurn& turn) {
  if (turn.branches() == 0) return Status::Ok();
  std::vector<KvCache*> caches;
  Status given;
  while (given.ok() && std::ssize(caches) < turn.branches()) {
    caches.push_back(pool_.Lend(turn.request().window));
    given = Given(pool_.Grow(caches.back(), BeamBytes(turn.request().max_tokens)));
  }
  if (given.ok()) {
    turn.AttachBranches(network_.memory(), std::move(caches));
  } else {
    for (KvCache* cache : caches) pool_.Release(cache);
  }
  return given;
}

bool EngineLoop::MakeRoom(const Slot& slot, const RunningTurn& turn, int64_t bytes, int64_t wanted) {
  const int64_t slots = unplaced_turns_ + wanted;
  const bool may_lack = pool_.overcommitted() && !running_.empty();
  const int64_t all_bytes =
      bytes + unplaced_bytes_ + (may_lack ? std::min(bytes, pool_.memory_bytes() / kRunningShare) : 0);
  const auto chosen_before = std::ssize(preempted_);
  const auto has = [&] { return pool_.slots() - pool_.used() >= slots && pool_.free_bytes() >= all_bytes; };
  while (!has()) {
    // Evictions in progress free memory soon: evict no more than needed.
    if (WillBeFree(slots, all_bytes)) break;
    Slot* next = PickIdleVictim(&slot, /*waiting=*/false);
    // Queued turns that hold caches must not deadlock: the first one may evict the others' caches.
    const bool first = running_.empty() && unplaced_turns_ == 0 && unplaced_bytes_ == 0;
    if (next == nullptr && first) next = PickIdleVictim(&slot, /*waiting=*/true);
    if (next != nullptr) {
      if (!EvictCache(*next)) break;
      continue;
    }
    std::optional<Preemption> next_preempted = PickRunningVictim(turn);
    no_victim_ = !next_preempted;
    if (no_victim_) {
      // Beams need all their slots, so undo a partial choice.
      if (turn.branches() > 0) preempted_.erase(preempted_.begin() + chosen_before, preempted_.end());
      break;
    }
    preempted_.push_back(std::move(*next_preempted));
  }
  if (has()) return true;
  unplaced_turns_ = slots;
  unplaced_bytes_ += bytes;
  if (WillBeFree(slots, all_bytes)) expected_.push_back(turn.request().tenant);
  return false;
}

bool EngineLoop::WillBeFree(int64_t slots, int64_t bytes) const {
  int64_t leaving_slots = std::ranges::count_if(cached_, &Slot::is_evicting), leaving_bytes = EvictingBytes();
  for (const auto& [turn, tenant, charge] : preempted_) {
    leaving_slots += 1 + turn->branches();
    leaving_bytes += pool_.reserved_bytes(*turn->sequence()->cache());
    leaving_bytes += turn->branches() * BeamBytes(turn->request().max_tokens);
  }
  return pool_.slots() - pool_.used() + leaving_slots >= slots && pool_.free_bytes() + leaving_bytes >= bytes;
}

std::optional<EngineLoop::Preemption> EngineLoop::PickRunningVictim(const RunningTurn& turn) const {
  std::unordered_map<std::string_view, size_t> tenants;
  const auto index = [&](std::string_view tenant) { return tenants.try_emplace(tenant, tenants.size()).first->second; };
  std::vector<SlotHolder> holders;
  for (const auto& running : running_) {
    SlotHolder& holder = holders.emplace_back();
    const bool chosen = std::ranges::count(preempted_, running.get(), &Preemption::turn) > 0;
    // A chosen victim already holds its slot for another tenant.
    holder.tenant = chosen ? std::numeric_limits<size_t>::max() : index(running->request().tenant);
    const Slot& slot = timelines_.at(running->timeline_id());
    const KvCache& cache = *slot.sequence->cache();
    const bool branch = cache.history() != nullptr;
    // Its branches are preempted first. Beams are preempted only after decoding for longer than their recomputation
    // takes.
    holder.is_preemptable =
        !chosen && !running->finished() && BranchOf(slot) == nullptr &&
        (!running->beams_begun() || slot.steps - slot.prompt_steps > running->rows_of_beams() / options_.step_tokens);
    holder.is_recoverable = branch ? cache.ring().next() - cache.branch() <= options_.step_tokens
                                   : sequence_storage_.Keeps(slot.owner, cache);
    const int64_t kept_rows = branch ? cache.branch() : cache.snapshot() == 0 ? 0 : cache.ring().unchanged();
    holder.rows =
        branch && holder.is_recoverable ? 0 : cache.ring().next() - (branch || holder.is_recoverable ? kept_rows : 0);
    holder.has_run = slot.steps > 0;
    // Recomputing a cache must cost less than the work done with it.
    holder.steps = slot.steps - (holder.is_recoverable ? 0 : 2 * slot.prompt_steps);
    // Beams of one tenant displace several turns of others: only after their quanta.
    if (turn.branches() == 0) holder.ahead = served_.Of(running->request().tenant) - served_.Of(turn.request().tenant);
  }
  for (const std::string_view tenant : expected_) holders.push_back({.tenant = index(tenant), .is_preemptable = false});
  const bool is_new = !turn.begun() && turn.branches() == 0;
  const std::optional<Victim> victim = PickVictim(holders, {index(turn.request().tenant), is_new});
  if (!victim) return std::nullopt;
  return Preemption{running_[victim->holder].get(), turn.request().tenant, victim->charge};
}

void EngineLoop::PreemptChosen() {
  if (preempted_.empty()) return;
  FinishLaunchedStep();
  RetireFinished();  // a chosen turn may have ended
  for (const auto& [chosen, tenant, charge] : std::exchange(preempted_, {})) {
    const auto turn = std::ranges::find_if(running_, [&](const auto& running) { return running.get() == chosen; });
    if (turn == running_.end()) continue;
    served_.Charge((*turn)->request().tenant, tenant, static_cast<double>(charge));
    Preempt(**turn, &counts_.turns_preempted);
  }
  AdmitWaiting();
  preempted_.clear();  // others, in the next round
}

EngineLoop::Slot* EngineLoop::PickIdleVictim(const Slot* but, bool waiting) {
  Slot* oldest = nullptr;
  // Side requests first, then caches that are already saved, because they can be dropped at once.
  const auto age = [this](const Slot& slot) {
    return std::tuple(!IsSideRequest(slot), !slot.sequence->cache()->saved(), slot.last_used);
  };
  for (Slot* slot : cached_) {
    if (slot == but || slot->turn != nullptr || (slot->waiting > 0) != waiting || slot->eviction != EvictionMode::kNo)
      continue;
    if (BranchOf(*slot) != nullptr) continue;
    if (oldest == nullptr || age(*slot) < age(*oldest)) oldest = slot;
  }
  return oldest;
}

bool EngineLoop::EvictCache(Slot& slot) {
  if (!slot.sequence->cache()->saved() && !sequence_storage_.MayCopyMore()) return false;
  ++counts_.slots_taken;
  SaveAndDropCache(slot, slot.busy() ? EvictionMode::kForced : EvictionMode::kAnyway);
  return true;
}

int64_t EngineLoop::EvictingBytes() const {
  int64_t bytes = 0;
  for (const Slot* slot : cached_) {
    if (slot->is_evicting()) bytes += pool_.reserved_bytes(*slot->sequence->cache());
  }
  return bytes;
}

int64_t EngineLoop::BytesOf(const RunningTurn& turn) const {
  const KvCache* cache = turn.sequence() == nullptr ? nullptr : turn.sequence()->cache();
  if (cache != nullptr && cache->history() != nullptr) return BranchBytes(turn.most_tokens() + 1 - cache->branch());
  return pool_.BytesFor(turn.request().window, turn.most_tokens() + 1);
}

int64_t EngineLoop::BranchBytes(int64_t tokens) const {
  return pool_.BytesFor({.pinned = 0, .memory_len = pool_.shape().ring_rows()}, tokens);
}

bool EngineLoop::HasMemory(const RunningTurn& turn) const {
  return pool_.reserved_bytes(*turn.sequence()->cache()) >= BytesOf(turn);
}

bool EngineLoop::GrowRunning() {
  for (RunningTurn* branch : OverwrittenBranches()) PreemptForMemory(*branch);
  std::vector<RunningTurn*> turns;
  for (const auto& turn : running_) turns.push_back(turn.get());
  // Sort a branch directly after its history, so that it is preempted first: it depends on the history's memory, too.
  std::ranges::sort(turns, {}, [this](const RunningTurn* turn) {
    const RunningTurn* history = HistoryOf(*turn);
    const RunningTurn* first = history == nullptr ? turn : history;
    return std::tuple(first->submitted_ns(), first->id(), history != nullptr, turn->submitted_ns(), turn->id());
  });
  for (size_t i = 0; i < turns.size(); ++i) {
    while (turns.size() > i && !GrowTurn(*turns[i])) {
      if (!ReclaimMemory(*turns[i], &turns)) break;
    }
  }
  RetireFinished();  // turns that the device refused memory
  return std::ranges::any_of(running_, [&](const auto& turn) { return HasMemory(*turn); });
}

bool EngineLoop::GrowTurn(RunningTurn& turn) {
  KvCache* cache = turn.sequence()->cache();
  if (BytesOf(turn) - pool_.reserved_bytes(*cache) > pool_.free_bytes()) return false;
  const int64_t ahead = pool_.BytesFor(turn.request().window, turn.request().window.pinned + kAheadTokens);
  Status given = Given(pool_.Grow(cache, BytesOf(turn), ahead));
  if (!given.ok()) turn.Finish(FinishReason::kError, std::move(given));
  return true;
}

bool EngineLoop::ReclaimMemory(const RunningTurn& turn, std::vector<RunningTurn*>* running) {
  const int64_t wanted = BytesOf(turn) - pool_.reserved_bytes(*turn.sequence()->cache());
  if (wanted <= pool_.free_bytes() + EvictingBytes()) return false;
  Slot* next = PickIdleVictim(nullptr, /*waiting=*/false);
  if (next == nullptr) next = PickIdleVictim(nullptr, /*waiting=*/true);
  if (next != nullptr) return EvictCache(*next);
  // Skip turns with beams: they have all the memory they will need, and they end.
  auto last = running->end();
  while ((*--last)->branches() > 0) CHECK(last != running->begin());
  PreemptForMemory(**last);
  running->erase(last);
  return true;
}

bool EngineLoop::GrowAhead() {
  return OverwrittenBranches().empty() &&
         std::ranges::all_of(running_, [&](const auto& turn) { return GrowTurn(*turn) && !turn->finished(); });
}

void EngineLoop::Preempt(RunningTurn& turn, uint64_t* count) {
  ++*count;
  Slot& slot = timelines_.at(turn.timeline_id());
  for (KvCache* branch : turn.DetachBranches(/*keep=*/false)) pool_.Release(branch);
  const auto found = std::ranges::find_if(running_, [&](const auto& other) { return other.get() == &turn; });
  queue_shares_.Requeue(turn.request().tenant);
  waiting_.push_front(std::move(*found));
  running_.erase(found);
  slot.turn = nullptr;
  ++slot.waiting;
  SaveAndDropCache(slot, EvictionMode::kForced);
}

}  // namespace ringside
