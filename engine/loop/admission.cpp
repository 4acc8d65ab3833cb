#include "engine/loop/admission.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "engine/loop/running_memory.h"
#include "kernels/slab_memory.h"

namespace ringside {
namespace {

// This fraction of all memory is reserved for running turns when another turn starts.
constexpr int64_t kRunningShare = 64;
// A conversation that sends its next turn while its cache is being saved keeps it, and the turn that wanted the memory
// waits on, but not longer than this in all.
constexpr int64_t kMemoryPatienceNs = 200'000'000;
// Time per round that running turns wait for the memory of new turns: enough for that of a small cache.
constexpr int64_t kMemoryWaitUs = 1000;

}  // namespace

void Admission::AdmitWaiting() {
  preempted_.clear();
  expected_.clear();
  if (parts_.queue.empty()) return;
  unplaced_turns_ = unplaced_bytes_ = 0;
  no_victim_ = false;
  memory_wait_us_ = kMemoryWaitUs;
  parts_.queue.Order(parts_.slots.running());
  const int64_t now = parts_.clock.MonotonicNs();
  for (auto& turn : parts_.queue.turns()) {
    Slot& slot = parts_.slots.At(turn->timeline_id());
    if (parts_.fetches.HasLongerCopy(slot, *turn)) parts_.eviction.Drop(slot);
    parts_.fetches.Request(slot, turn->request());
    if (parts_.fetches.IsFetching(slot) || (!no_victim_ && parts_.prefixes.ShouldAwait(slot, *turn))) continue;
    if ((no_victim_ && !slot.sequence->has_cache()) || !Admit(turn)) turn->clock().NoteNoSlot(now);
  }
  parts_.queue.Compact();
}

bool Admission::Admit(std::unique_ptr<RunningTurn>& turn) {
  Slot& slot = parts_.slots.At(turn->timeline_id());
  if (slot.turn != nullptr) {
    Refuse(slot, std::move(turn), Status(StatusCode::kBusy, "the conversation is answering another turn"));
    return true;
  }
  // Branches must end first: the turn may overwrite rows that they see.
  if (parts_.slots.BranchOf(slot) != nullptr) return false;
  if (parts_.prefixes.HasMuchLongerDonor(slot, *turn)) parts_.eviction.Drop(slot);
  if (slot.sequence->has_cache() && !slot.filled() && !parts_.prefixes.CanFill(slot, *turn)) parts_.eviction.Drop(slot);
  std::optional<double> restore_ms;
  const bool restores = !slot.filled();
  Slot* const history = restores ? parts_.prefixes.FindHistory(slot, *turn) : nullptr;
  PrefixSharing::Donor donor;
  if (restores && history == nullptr) donor = parts_.prefixes.FindDonor(slot, *turn);
  const bool has_source = parts_.fetches.HasSourceInSlot(turn->request());
  if (Status given = AllocateMemory(slot, *turn, history, donor); !given.ok()) {
    if (given.code() == StatusCode::kOverloaded) return false;
    Refuse(slot, std::move(turn), std::move(given));
    return true;
  }
  if (has_source && !parts_.fetches.HasSourceInSlot(turn->request()) && turn->branches() == 0) {
    parts_.eviction.Drop(slot);  // it took the source's slot: the tiers have the cache now
    return false;
  }
  if (restores && history == nullptr && !IsMemoryCommitted(slot, *turn)) {
    slot.unfilled = true;
    return false;
  }
  slot.unfilled = false;
  if (history != nullptr) {
    parts_.prefixes.BranchOff(slot, *turn, *history);
  } else if (restores) {
    restore_ms = parts_.prefixes.Fill(slot, *turn);
  }
  Start(slot, std::move(turn), restore_ms);
  return true;
}

void Admission::Refuse(Slot& slot, std::unique_ptr<RunningTurn> turn, Status error) {
  --slot.waiting;
  parts_.queue.End(std::move(turn), FinishReason::kError, std::move(error));
}

void Admission::Start(Slot& slot, std::unique_ptr<RunningTurn> turn, std::optional<double> restore_ms) {
  const TurnRequest& request = turn->request();
  slot.tenant = request.tenant;
  slot.continued |= request.continues && request.forked_from == 0;
  --slot.waiting;
  parts_.queue.shares().Admit(slot.tenant);
  parts_.fetches.Cancel(slot);
  parts_.slots.SetOwner(slot, request.owner);
  SyncResult sync = slot.sequence->Sync(turn->timeline(), turn->max_reusable());
  const bool restored = sync.source == CacheSource::kHost || sync.source == CacheSource::kDisk;
  if (restored) sync.restore_ms = restore_ms.value_or(0);
  parts_.counts.tokens_reused += static_cast<uint64_t>(sync.reused);
  parts_.counts.rebuilds += sync.rebuilt || sync.source == CacheSource::kRecomputed ? 1 : 0;
  slot.turn = turn.get();
  slot.steps = slot.prompt_steps = 0;
  slot.eviction = EvictionMode::kNo;
  slot.last_used = parts_.counts.steps;
  if (turn->begun()) {
    turn->Resume(sync);
  } else {
    turn->Begin(slot.sequence.get(), sync, parts_.tokenizer, parts_.network.shape().vocab,
                parts_.limits.SessionLimit(request) + request.virtual_tokens, parts_.clock.MonotonicNs());
  }
  turn->FinishIfComputed();
  parts_.slots.AddRunning(std::move(turn));
}

Status Admission::AllocateMemory(Slot& slot, RunningTurn& turn, Slot* history, const PrefixSharing::Donor& donor) {
  if (slot.eviction == EvictionMode::kForced) return Overloaded("its cache is still being evicted");
  KvPool& pool = parts_.slots.pool();
  const RingWindow& window = turn.request().window;
  const int64_t branches = turn.branches(), branch_bytes = branches * BeamBytes(pool, turn.request().max_tokens);
  int64_t bytes = parts_.slots.BytesOf(turn);
  if (slot.sequence->has_cache()) {
    KvCache* cache = slot.sequence->cache();
    const int64_t more = std::max<int64_t>(0, bytes - pool.reserved_bytes(*cache)) + branch_bytes;
    if (more > 0 && !MakeRoom(slot, turn, more, branches)) return Overloaded("no memory yet");
    RETURN_IF_ERROR(AsPermanent(pool.Grow(cache, bytes)));
    return AttachBranches(turn);
  }
  // The snapshot from the tiers may be longer than the timeline, which was edited since.
  if (slot.fetch && slot.fetch->answer && slot.fetch->answer->ok()) {
    const SnapshotHeader& header = (*slot.fetch->answer)->snapshot.header();
    if (header.window == window) bytes = std::max(bytes, pool.BytesFor(window, header.next));
  }
  if (history != nullptr) {
    const int64_t tokens = history->sequence->BranchPoint(turn.timeline(), turn.max_reusable());
    bytes = BranchBytes(pool, turn.most_tokens() + 1 - KvCache::BranchAt(tokens, window.pinned));
  }
  if (slot.fetch) slot.fetch->present = {};
  PrefixSharing::Donor pages;
  if (history == nullptr) pages = parts_.prefixes.PageDonor(slot, turn, donor);
  // The next step uses it, and others may share it, too: MakeRoom evicts it last.
  if (Slot* used = history != nullptr ? history : pages.slot) used->last_used = parts_.counts.steps + 1;
  const int64_t shareable =
      pages.slot != nullptr ? pool.ShareableBytes(*pages.slot->sequence->cache(), pages.tokens) : 0;
  const int64_t own_bytes = std::max<int64_t>(0, bytes - shareable);
  if (!MakeRoom(slot, turn, own_bytes + branch_bytes, 1 + branches)) return Overloaded("no slot yet");
  // MakeRoom may have evicted it, if it had the only slot.
  if (history != nullptr && (!history->sequence->has_cache() || history->is_evicting()))
    return Overloaded("the parent cache was evicted before the branch was made");
  KvCache* cache = pool.Lend(window);
  if (shareable > 0) {
    // MakeRoom may have evicted the donor.
    if (pages.slot->sequence->has_cache()) parts_.prefixes.SharePages(slot, cache, pages);
    if (bytes + branch_bytes - pool.reserved_bytes(*cache) > pool.free_bytes()) {
      pool.Release(cache);
      return Overloaded("no pages could be shared");
    }
  }
  Status given = AsPermanent(pool.Grow(cache, bytes));
  given.ok() ? parts_.slots.Attach(slot, cache) : pool.Release(cache);
  RETURN_IF_ERROR(std::move(given));
  return AttachBranches(turn);
}

Status Admission::AttachBranches(RunningTurn& turn) {
  if (turn.branches() == 0) return Status::Ok();
  KvPool& pool = parts_.slots.pool();
  std::vector<KvCache*> caches;
  Status given;
  while (given.ok() && std::ssize(caches) < turn.branches()) {
    caches.push_back(pool.Lend(turn.request().window));
    given = AsPermanent(pool.Grow(caches.back(), BeamBytes(pool, turn.request().max_tokens)));
  }
  if (given.ok()) {
    turn.AttachBranches(parts_.network.memory(), std::move(caches));
  } else {
    for (KvCache* cache : caches) pool.Release(cache);
  }
  return given;
}

bool Admission::IsMemoryCommitted(const Slot& slot, const RunningTurn& turn) {
  if (parts_.slots.running().empty() || turn.branches() > 0) return true;  // the first use waits for it
  const KvCache& cache = *slot.sequence->cache();
  const auto bytes = static_cast<size_t>(parts_.slots.pool().reserved_bytes(cache));
  const bool there = parts_.network.memory().Committed(cache.slab(), bytes, memory_wait_us_);
  if (!there) memory_wait_us_ = 0;
  return there;
}

bool Admission::MakeRoom(const Slot& slot, const RunningTurn& turn, int64_t bytes, int64_t wanted) {
  const KvPool& pool = parts_.slots.pool();
  const int64_t slots = unplaced_turns_ + wanted;
  const bool may_lack = pool.overcommitted() && !parts_.slots.running().empty();
  const int64_t all_bytes =
      bytes + unplaced_bytes_ + (may_lack ? std::min(bytes, pool.memory_bytes() / kRunningShare) : 0);
  const auto chosen_before = std::ssize(preempted_);
  const auto has = [&] { return pool.slots() - pool.used() >= slots && pool.free_bytes() >= all_bytes; };
  while (!has()) {
    // Evictions in progress free memory soon: evict no more than needed.
    if (WillBeFree(slots, all_bytes)) break;
    Slot* next = parts_.slots.PickIdleVictim(&slot, /*waiting=*/false);
    // Queued turns that hold caches must not deadlock: the first one may evict the others' caches.
    const bool first = parts_.slots.running().empty() && unplaced_turns_ == 0 && unplaced_bytes_ == 0;
    if (next == nullptr && first) next = parts_.slots.PickIdleVictim(&slot, /*waiting=*/true);
    if (next != nullptr) {
      const bool insists = parts_.clock.MonotonicNs() - turn.clock().submitted_ns() > kMemoryPatienceNs;
      if (!parts_.eviction.Evict(*next, insists)) break;
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

bool Admission::WillBeFree(int64_t slots, int64_t bytes) const {
  const KvPool& pool = parts_.slots.pool();
  int64_t leaving_slots = parts_.slots.EvictingSlots(), leaving_bytes = parts_.slots.EvictingBytes();
  for (const auto& [turn, tenant, charge] : preempted_) {
    leaving_slots += 1 + turn->branches();
    leaving_bytes += pool.own_bytes(*turn->sequence()->cache());
    leaving_bytes += turn->branches() * BeamBytes(pool, turn->request().max_tokens);
  }
  return pool.slots() - pool.used() + leaving_slots >= slots && pool.free_bytes() + leaving_bytes >= bytes;
}

SlotHolder Admission::HolderOf(const RunningTurn& running, const RunningTurn& turn, bool chosen) const {
  const int64_t step_tokens = parts_.options.step_tokens;
  const Slot& slot = parts_.slots.At(running.timeline_id());
  const KvCache& cache = *slot.sequence->cache();
  const bool branch = cache.history() != nullptr;
  const int64_t beam_rows = running.beam_rows();
  SlotHolder holder;
  // Its branches are preempted first. Beams are preempted only after decoding for longer than their recomputation
  // takes.
  holder.is_preemptable = !chosen && !running.finished() && parts_.slots.BranchOf(slot) == nullptr &&
                          (beam_rows == 0 || slot.steps - slot.prompt_steps > beam_rows / step_tokens);
  holder.is_recoverable =
      branch ? cache.ring().next() - cache.branch() <= step_tokens : parts_.sequences.Keeps(slot.owner, cache);
  const int64_t kept_rows = branch ? cache.branch() : cache.snapshot() == 0 ? 0 : cache.ring().unchanged();
  holder.rows =
      branch && holder.is_recoverable ? 0 : cache.ring().next() - (branch || holder.is_recoverable ? kept_rows : 0);
  holder.has_run = slot.steps > 0;
  // Recomputing a cache must cost less than the work done with it.
  holder.steps = slot.steps - (holder.is_recoverable ? 0 : 2 * slot.prompt_steps);
  // Beams of one tenant displace several turns of others: only after their quanta.
  const VirtualTokenCounter& served = parts_.queue.served();
  if (turn.branches() == 0) holder.ahead = served.Of(running.request().tenant) - served.Of(turn.request().tenant);
  return holder;
}

std::optional<Admission::Preemption> Admission::PickRunningVictim(const RunningTurn& turn) const {
  std::unordered_map<std::string_view, size_t> tenants;
  const auto index = [&](std::string_view tenant) { return tenants.try_emplace(tenant, tenants.size()).first->second; };
  std::vector<SlotHolder> holders;
  const auto& running = parts_.slots.running();
  for (const auto& other : running) {
    const bool chosen = std::ranges::count(preempted_, other.get(), &Preemption::turn) > 0;
    holders.push_back(HolderOf(*other, turn, chosen));
    // A chosen victim already holds its slot for another tenant.
    holders.back().tenant = chosen ? std::numeric_limits<size_t>::max() : index(other->request().tenant);
  }
  for (const std::string_view tenant : expected_) holders.push_back({.tenant = index(tenant), .is_preemptable = false});
  const bool is_new = !turn.begun() && turn.branches() == 0;
  const std::optional<Victim> victim = PickVictim(holders, {index(turn.request().tenant), is_new});
  if (!victim) return std::nullopt;
  return Preemption{running[victim->holder].get(), turn.request().tenant, victim->charge};
}

void Admission::PreemptVictims() {
  const auto& running = parts_.slots.running();
  for (const auto& [chosen, tenant, charge] : std::exchange(preempted_, {})) {
    const auto turn = std::ranges::find_if(running, [&](const auto& other) { return other.get() == chosen; });
    if (turn == running.end()) continue;  // it has ended
    parts_.queue.served().Charge((*turn)->request().tenant, tenant, static_cast<double>(charge));
    parts_.eviction.Preempt(**turn, &parts_.counts.turns_preempted);
  }
  AdmitWaiting();
  preempted_.clear();  // others, in the next round
}

}  // namespace ringside
