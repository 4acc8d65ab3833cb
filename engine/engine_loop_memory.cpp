// The engine loop's memory: how much of it a turn is given before it begins, where it comes from, and who gives way
// when there is none.
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "engine/engine_loop.h"

namespace ringside {
namespace {

// Tokens for which a running turn is given memory before it needs it.
constexpr int64_t kAheadTokens = 64;
// This part of all memory is left to those that run when another turn begins.
constexpr int64_t kShareOfRunning = 64;

/// Of memory that the pool counts as free: a device that has none after all will not have it later either.
Status Given(const Status& grown) { return grown.ok() ? grown : Unavailable(grown.message()); }

}  // namespace

Status EngineLoop::GiveMemory(Slot& slot, RunningTurn& turn, const Slot* history) {
  if (slot.leaving == Leaving::kForced) return Overloaded("its cache is still leaving");
  const RingWindow& window = turn.request().window;
  const int64_t branches = turn.branches(), branch_bytes = branches * BeamBytes(turn.request().max_tokens);
  int64_t bytes = BytesOf(turn);
  if (slot.sequence->has_cache()) {
    KvCache* cache = slot.sequence->cache();
    const int64_t more = std::max<int64_t>(0, bytes - pool_.promised_bytes(*cache)) + branch_bytes;
    if (more > 0 && !MakeRoom(slot, more, branches)) return Overloaded("no memory yet");
    RETURN_IF_ERROR(Given(pool_.Grow(cache, bytes)));
    return GiveBranches(turn);
  }
  // What the tiers brought may be longer than what the timeline has become.
  if (slot.fetch && slot.fetch->answer && slot.fetch->answer->ok()) {
    const SnapshotHeader& header = (*slot.fetch->answer)->snapshot.header();
    if (header.window == window) bytes = std::max(bytes, pool_.BytesFor(window, header.next));
  }
  if (history != nullptr) {
    const int64_t tokens = history->sequence->BranchPoint(turn.timeline(), turn.most_reused());
    bytes = BranchBytes(turn.most_tokens() + 1 - KvCache::BranchAt(tokens, window.pinned));
  }
  if (!MakeRoom(slot, bytes + branch_bytes, 1 + branches)) return Overloaded("no slot yet");
  // That one may have had the only slot.
  if (history != nullptr && (!history->sequence->has_cache() || history->leaves()))
    return Overloaded("what it was to branch off has left");
  KvCache* cache = pool_.Lend(window);
  Status given = Given(pool_.Grow(cache, bytes));
  given.ok() ? GiveCache(slot, cache) : pool_.Release(cache);
  RETURN_IF_ERROR(std::move(given));
  return GiveBranches(turn);
}

Status EngineLoop::GiveBranches(RunningTurn& turn) {
  if (turn.branches() == 0) return Status::Ok();
  std::vector<KvCache*> caches;
  Status given;
  while (given.ok() && std::ssize(caches) < turn.branches()) {
    caches.push_back(pool_.Lend(turn.request().window));
    given = Given(pool_.Grow(caches.back(), BeamBytes(turn.request().max_tokens)));
  }
  if (given.ok()) {
    turn.GiveBranches(network_.memory(), std::move(caches));
  } else {
    for (KvCache* cache : caches) pool_.Release(cache);
  }
  return given;
}

bool EngineLoop::MakeRoom(const Slot& slot, int64_t bytes, int64_t wanted) {
  const int64_t slots = wanting_ + wanted;
  const bool may_lack = pool_.overcommitted() && !running_.empty();
  const int64_t all_bytes =
      bytes + wanting_bytes_ + (may_lack ? std::min(bytes, pool_.memory_bytes() / kShareOfRunning) : 0);
  const auto has = [&](int64_t leaving_slots, int64_t leaving_bytes) {
    return pool_.slots() - pool_.used() + leaving_slots >= slots && pool_.free_bytes() + leaving_bytes >= all_bytes;
  };
  while (!has(0, 0)) {
    // What is being copied out comes free soon: no more of it than is wanted.
    if (has(std::ranges::count_if(cached_, &Slot::leaves), LeavingBytes())) break;
    Slot* next = NextToLeave(&slot, /*waiting=*/false);
    // Turns whose caches wait with them must not keep each other from beginning.
    const bool first = running_.empty() && wanting_ == 0 && wanting_bytes_ == 0;
    if (next == nullptr && first) next = NextToLeave(&slot, /*waiting=*/true);
    none_idle_ = next == nullptr;
    if (none_idle_) break;
    MakeLeave(*next);
  }
  if (has(0, 0)) return true;
  wanting_ = slots;
  wanting_bytes_ += bytes;
  return false;
}

EngineLoop::Slot* EngineLoop::NextToLeave(const Slot* but, bool waiting) {
  Slot* oldest = nullptr;  // first of those that go at once, since the tiers have what they hold
  const auto age = [](const Slot& slot) { return std::pair(!slot.sequence->cache()->saved(), slot.last_used); };
  for (Slot* slot : cached_) {
    if (slot == but || slot->turn != nullptr || (slot->waiting > 0) != waiting || slot->leaving != Leaving::kNo)
      continue;
    if (BranchOf(*slot) != nullptr) continue;
    if (oldest == nullptr || age(*slot) < age(*oldest)) oldest = slot;
  }
  return oldest;
}

void EngineLoop::MakeLeave(Slot& slot) {
  ++counts_.slots_taken;
  SaveAndDropCache(slot, slot.busy() ? Leaving::kForced : Leaving::kAnyway);
}

int64_t EngineLoop::LeavingBytes() const {
  int64_t bytes = 0;
  for (const Slot* slot : cached_) {
    if (slot->leaves()) bytes += pool_.promised_bytes(*slot->sequence->cache());
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
  return pool_.promised_bytes(*turn.sequence()->cache()) >= BytesOf(turn);
}

bool EngineLoop::GrowRunning() {
  for (RunningTurn* branch : OvertakenBranches()) GiveWay(*branch);
  std::vector<RunningTurn*> turns;
  for (const auto& turn : running_) turns.push_back(turn.get());
  // A branch gives way before what it is a branch of: that one's memory is its own, too.
  std::ranges::sort(turns, {}, [this](const RunningTurn* turn) {
    const RunningTurn* history = HistoryOf(*turn);
    const RunningTurn* first = history == nullptr ? turn : history;
    return std::tuple(first->submitted_ns(), first->id(), history != nullptr, turn->submitted_ns(), turn->id());
  });
  for (size_t i = 0; i < turns.size(); ++i) {
    while (turns.size() > i && !GrowTurn(*turns[i])) {
      if (!TakeMemory(*turns[i], &turns)) break;
    }
  }
  RetireFinished();  // those to which the device gave none
  return std::ranges::any_of(running_, [&](const auto& turn) { return HasMemory(*turn); });
}

bool EngineLoop::GrowTurn(RunningTurn& turn) {
  KvCache* cache = turn.sequence()->cache();
  if (BytesOf(turn) - pool_.promised_bytes(*cache) > pool_.free_bytes()) return false;
  const int64_t ahead = pool_.BytesFor(turn.request().window, turn.request().window.pinned + kAheadTokens);
  Status given = Given(pool_.Grow(cache, BytesOf(turn), ahead));
  if (!given.ok()) turn.Finish(FinishReason::kError, std::move(given));
  return true;
}

bool EngineLoop::TakeMemory(const RunningTurn& turn, std::vector<RunningTurn*>* running) {
  const int64_t wanted = BytesOf(turn) - pool_.promised_bytes(*turn.sequence()->cache());
  if (wanted <= pool_.free_bytes() + LeavingBytes()) return false;
  Slot* next = NextToLeave(nullptr, /*waiting=*/false);
  if (next == nullptr) next = NextToLeave(nullptr, /*waiting=*/true);
  if (next != nullptr) {
    MakeLeave(*next);
    return true;
  }
  // A turn with beams has all it will need, and ends.
  auto last = running->end();
  while ((*--last)->branches() > 0) CHECK(last != running->begin());
  GiveWay(**last);
  running->erase(last);
  return true;
}

bool EngineLoop::GrowAhead() {
  return OvertakenBranches().empty() &&
         std::ranges::all_of(running_, [&](const auto& turn) { return GrowTurn(*turn) && !turn->finished(); });
}

void EngineLoop::GiveWay(RunningTurn& turn) {
  ++counts_.turns_gave_way;
  Slot& slot = timelines_.at(turn.timeline_id());
  const auto found = std::ranges::find_if(running_, [&](const auto& other) { return other.get() == &turn; });
  waiting_.push_front(std::move(*found));
  running_.erase(found);
  slot.turn = nullptr;
  ++slot.waiting;
  SaveAndDropCache(slot, Leaving::kForced);
}

}  // namespace ringside
