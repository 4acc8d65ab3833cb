#include "engine/loop/cache_fetches.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace ringside {

int64_t CacheFetches::ReplayedTokens(const TurnRequest& request) const {
  const auto length = static_cast<int64_t>(request.tokens.size());
  const int64_t reach = layers_ * (request.window.memory_len - 1);
  return recurrent_ ? length : std::min(length, request.window.pinned + reach + 1);
}

ExpectedPrompt CacheFetches::Expect(const TurnRequest& request, double ns_per_token) const {
  const auto length = static_cast<int64_t>(request.tokens.size());
  if (request.scored || request.embedded) return {.tokens = length};
  const int64_t all = ReplayedTokens(request);
  if (request.known_tokens == 0) return {.tokens = all};
  const int64_t added = std::clamp<int64_t>(length - request.known_tokens, 1, all);
  bool named = false;
  for (const std::string* owner : {&request.owner, &request.forked_owner}) {
    if (owner->empty()) continue;
    named = true;
    if (slots_.HoldsOwner(*owner)) return {.tokens = added};
    const auto place = storage_.tiers == nullptr ? std::nullopt : storage_.tiers->Find(*owner);
    if (place && place->estimated_ms * 1e6 <= static_cast<double>(all) * ns_per_token) {
      return {.tokens = added, .load_ms = place->estimated_ms};
    }
  }
  return {.tokens = named ? all : added};
}

void CacheFetches::Request(Slot& slot, const TurnRequest& request) {
  if (slot.turn != nullptr || slot.filled()) return;
  if (slot.fetch && (slot.fetch->ticket != 0 || slot.fetch->answer)) return;
  const bool forked = request.forked_from != 0 && IsTierOwner(request.forked_owner) && IsTierOwner(request.owner);
  if (HasSourceInSlot(request)) return;  // copied from that slot instead
  const bool first = !slot.fetch;
  if (first) slot.fetch = PendingFetch{};
  if (IsOnItsWay(request, forked)) return;
  const int64_t bytes = StoredBytes(request, forked);
  if (!MakePlace(slot, request, forked, first, bytes)) return;
  if (forked && !std::exchange(slot.fetch->forked, true) && storage_.tiers != nullptr) {
    storage_.tiers->Fork(request.forked_owner, request.owner, nullptr);
  }
  const auto plan = sequences_.PlanFetch(request.owner, ReplayedTokens(request));
  if (plan.stored) slot.sequence->MarkKnown();  // it was computed once
  if (!plan.ask) {
    slot.fetch->answer.emplace(NotFound("not asked for"));
    return;
  }
  slot.fetch->ticket = ++last_ticket_;
  slot.fetch->deadline_ns = plan.deadline_ns;
  ++fetches_;
  fetch_bytes_ += slot.fetch->bytes = bytes;
  storage_.tiers->Fetch(request.owner, [deliver = deliver_, timeline = slot.id, ticket = last_ticket_](auto fetched) {
    deliver(FetchedMessage{timeline, ticket, std::move(fetched)});
  });
}

bool CacheFetches::IsOnItsWay(const TurnRequest& request, bool forked) const {
  const auto comes = [&](const ForkMessage& fork) { return fork.to_owner == request.owner; };
  if (sequences_.Saves(request.owner) || std::ranges::any_of(forks_, comes)) return true;
  return forked && sequences_.Saves(request.forked_owner);
}

bool CacheFetches::MakePlace(Slot& slot, const TurnRequest& request, bool forked, bool first, int64_t bytes) {
  // Fetched caches of queued turns use memory outside every budget, so fetch no more than the slots hold.
  const KvPool& pool = slots_.pool();
  const int64_t windows = pool.memory_bytes() / pool.shape().slab_bytes();
  const bool fits = fetches_ < windows || fetch_bytes_ + bytes <= pool.memory_bytes();
  if (fetches_ < pool.slots() && fits) return true;
  if (first && !forked && !storage_.tiers->Find(request.owner)) {
    slot.fetch->answer.emplace(NotFound("nothing is stored"));
    return false;
  }
  if (first) Prefetch(request.owner);
  return CancelLastAfter(slot);
}

int64_t CacheFetches::StoredBytes(const TurnRequest& request, bool forked) const {
  if (storage_.tiers == nullptr) return 0;
  auto place = storage_.tiers->Find(request.owner);
  if (!place && forked) place = storage_.tiers->Find(request.forked_owner);
  return place ? place->bytes : 0;
}

bool CacheFetches::CancelLastAfter(const Slot& slot) {
  for (const auto& turn : queue_.turns() | std::views::reverse) {
    if (turn == nullptr) continue;  // already admitted
    Slot& other = slots_.At(turn->timeline_id());
    if (&other == &slot) return false;
    if (!other.fetch || other.fetch->ticket == 0) continue;
    const bool forked = other.fetch->forked;
    Cancel(other);
    other.fetch = PendingFetch{.forked = forked};
    return true;
  }
  return false;
}

void CacheFetches::Take(FetchedMessage message) {
  Slot* slot = slots_.Find(message.timeline);
  if (slot == nullptr) return;
  std::optional<PendingFetch>& fetch = slot->fetch;
  if (!fetch || fetch->ticket != message.ticket) return;
  fetch->answer.emplace(std::move(message.fetched));
  if (fetch->answer->ok()) sequences_.AttachOrigins(&(*fetch->answer)->snapshot);
}

bool CacheFetches::IsFetching(const Slot& slot) const {
  return slot.fetch && !slot.fetch->answer && clock_.MonotonicNs() < slot.fetch->deadline_ns;
}

void CacheFetches::Cancel(Slot& slot) {
  if (slot.fetch && slot.fetch->ticket != 0) {
    --fetches_;
    fetch_bytes_ -= slot.fetch->bytes;
    if (!slot.fetch->answer) ++counts_.fetches_late;
  }
  slot.fetch.reset();
}

std::optional<double> CacheFetches::Restore(Slot& slot, const TurnRequest& request, int64_t wanted) {
  if (!slot.fetch || slot.fetch->ticket == 0 || !slot.fetch->answer) return std::nullopt;
  return sequences_.Restore(*slot.fetch->answer, slot.fetch->present, request.window, request.adapter, wanted,
                            *slot.sequence);
}

bool CacheFetches::HasLongerCopy(const Slot& slot, const RunningTurn& turn) const {
  constexpr int64_t kMinFetchedTokens = 256;
  if (storage_.tiers == nullptr || slot.turn != nullptr || !slot.filled() || slot.eviction != EvictionMode::kNo) {
    return false;
  }
  const KvCache& cache = *slot.sequence->cache();
  if (!cache.state().used() || slot.owner != turn.request().owner || sequences_.Saves(&cache)) return false;
  const int64_t common = slot.sequence->CommonTokens(turn.timeline(), turn.max_reusable());
  const int64_t own = cache.Floor(common), stored = cache.StoredFloor(common);
  return stored >= own + kMinFetchedTokens && cache.ring().CanRollBack(stored) &&
         sequences_.PlanFetch(slot.owner, stored - own).ask;
}

bool CacheFetches::HasSourceInSlot(const TurnRequest& request) const {
  if (request.forked_from == 0) return false;
  const Slot* source = std::as_const(slots_).Find(request.forked_from);
  return source != nullptr && source->sequence->has_cache();
}

void CacheFetches::Fork(ForkMessage message) {
  if (storage_.tiers == nullptr || !IsTierOwner(message.to_owner) || message.to_owner == message.from_owner) return;
  const Slot* from = slots_.Find(message.from);
  Sequence* const source = from != nullptr && from->sequence->has_cache() ? from->sequence.get() : nullptr;
  if (!IsTierOwner(message.from_owner)) {
    if (source != nullptr) sequences_.SaveCopy(message.to_owner, *source);
    return;
  }
  if (source != nullptr) sequences_.Save(message.from_owner, *source);
  forks_.push_back(std::move(message));
  MakeForks();
}

void CacheFetches::MakeForks() {
  std::erase_if(forks_, [this](const ForkMessage& fork) {
    if (sequences_.Saves(fork.from_owner)) return false;
    storage_.tiers->Fork(fork.from_owner, fork.to_owner, nullptr);
    return true;
  });
}

void CacheFetches::DropForks(const std::string& to_owner) {
  std::erase_if(forks_, [&](const ForkMessage& fork) { return fork.to_owner == to_owner; });
}

void CacheFetches::Prefetch(const std::string& owner) const {
  if (storage_.tiers != nullptr && IsTierOwner(owner)) storage_.tiers->Prefetch(owner);
}

}  // namespace ringside
