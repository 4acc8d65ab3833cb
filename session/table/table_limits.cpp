// The limits of owners and of the server: memory, disk, chains, turns and tokens.
#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "session/table/table_state.h"

namespace ringside {

Status SessionTable::State::MakeRoom(const std::string& owner, int64_t wanted) {
  const int64_t share = context->options.LimitsOf(owner).bytes;
  const auto owners_bytes = context->shared->bytes_by_owner.Of(owner);
  const auto beyond = [wanted](const std::atomic<int64_t>& bytes, int64_t most) { return bytes + wanted > most; };
  const auto rest = [wanted](int64_t most) { return std::max<int64_t>(most / 5 * 4 - wanted, 0); };
  if (share > 0 && beyond(*owners_bytes, share)) EvictHistories(*owners_bytes, rest(share), owner);
  if (share > 0 && beyond(*owners_bytes, share) && journal != nullptr) Unload(*owners_bytes, rest(share), owner);
  if (share > 0 && beyond(*owners_bytes, share)) {
    return Status(StatusCode::kOverloaded,
                  fmt::format("Your conversations and requests hold {} MiB of text, and this needs {} more; they may "
                              "hold {} (--max-text-mb-per-owner).",
                              *owners_bytes >> 20, wanted >> 20, share >> 20),
                  "", "rate_limit_exceeded");
  }
  RETURN_IF_ERROR(CheckDisk(owner));
  const int64_t budget = context->options.transcript_bytes;
  if (beyond(context->shared->bytes, budget)) EvictHistories(context->shared->bytes, rest(budget), std::nullopt);
  if (beyond(context->shared->bytes, budget) && journal != nullptr) Unload(context->shared->bytes, rest(budget));
  ForgetOldestResponses(std::max<int64_t>(budget - wanted, 0));
  return beyond(context->shared->bytes, budget) ? Overloaded("The server's memory limit for conversations is reached.")
                                                : Status::Ok();
}

Result<HeldBytes> SessionTable::State::Hold(const std::string& owner, int64_t bytes) {
  RETURN_IF_ERROR(MakeRoom(owner, bytes));
  return HeldBytes(context->shared->bytes_by_owner.Of(owner), {context->shared, &context->shared->bytes}, bytes);
}

Status SessionTable::State::CheckDisk(const std::string& owner) const {
  const int64_t most_stored = context->options.LimitsOf(owner).stored_bytes;
  if (most_stored <= 0) return Status::Ok();
  int64_t stored = *context->shared->stored_by_owner.Of(owner);
  if (shared) {
    ASSIGN_OR_RETURN(const SharedTotals all, shared.TotalsOf(owner));
    stored = all.stored_bytes;
  }
  if (stored > most_stored) {
    return Status(StatusCode::kOverloaded,
                  fmt::format("Your conversations hold {} MiB of the disk; they may hold {} "
                              "(--max-stored-mb-per-owner). Deleting some makes room.",
                              stored >> 20, most_stored >> 20),
                  "", "rate_limit_exceeded");
  }
  return Status::Ok();
}

void SessionTable::State::DropResponsesLocked(const Session& session) {
  for (const std::string& id : session.ResponseIds()) {
    if (const auto response = responses.find(id); response != responses.end()) {
      request_keys.Remove(response->second.request_key, id);
      responses.erase(response);
    }
  }
}

// Unloads sessions that the journal can restore.
void SessionTable::State::Unload(const std::atomic<int64_t>& bytes, int64_t budget_bytes, const std::string& owner) {
  WriteSummaries();  // so that lists need not read unloaded sessions
  std::vector<std::pair<uint64_t, std::string>> order;
  {
    std::lock_guard lock(mutex);
    for (const auto& [key, known] : sessions) {
      if (known.session != nullptr && (owner.empty() || known.owner == owner)) order.emplace_back(known.last_used, key);
    }
  }
  std::sort(order.begin(), order.end());
  for (const auto& [used, key] : order) {
    if (bytes <= budget_bytes) return;
    std::shared_ptr<Session> session;
    std::lock_guard lock(mutex);
    const auto at = sessions.find(key);
    if (at == sessions.end() || at->second.session.use_count() != 1) continue;
    // This is the only reference, so the session's lock is free.
    if (!at->second.session->durable() || !at->second.session->idle()) continue;
    session = std::move(at->second.session);
    at->second.session = nullptr;
    DropResponsesLocked(*session);
    at->second.responses = 0;
    --counts.loaded;
    ++counts.unloads;
  }
}

void SessionTable::State::ForgetOldestResponses(int64_t budget_bytes) {
  while (true) {
    const bool full = context->shared->bytes > budget_bytes;
    std::string id;
    std::shared_ptr<Session> session;
    {
      std::lock_guard lock(mutex);
      if (!full && response_order.size() < static_cast<size_t>(limits::kMaxResponses)) return;
      if (response_order.empty()) return;
      id = std::move(response_order.front());
      response_order.pop_front();
      const auto at = responses.find(id);
      if (at != responses.end()) session = at->second.session.lock();
    }
    if (session == nullptr || session->durable()) continue;
    (void)session->Forget(id, false);
    Forget({id});
  }
}

void SessionTable::State::TrimChains(const std::string& owner) {
  const int64_t limit = context->options.LimitsOf(owner).chains;
  if (shared && limit > 0) return shared.TrimChains(owner, limit);
  std::vector<std::string> beyond;
  {
    std::lock_guard lock(mutex);
    const auto own = chains_of.find(owner);
    if (own == chains_of.end()) return;
    size_t excess = 0;
    const size_t held = own->second.size();
    if (limit > 0 && held > static_cast<size_t>(limit)) excess = held - static_cast<size_t>(limit);
    if (sessions.size() > static_cast<size_t>(limits::kMaxSessions)) excess = std::max<size_t>(excess, 1);
    for (auto at = own->second.begin(); at != own->second.end() && beyond.size() < excess; ++at) {
      const std::shared_ptr<Session>& session = sessions.at(at->second).session;
      // If this is the only reference, the session's lock is free.
      if (session == nullptr || (session.use_count() == 1 && session->idle())) beyond.push_back(at->second);
    }
  }
  for (const std::string& key : beyond) DeleteLater(key);
}

int64_t SessionTable::State::TokensWaitMs(const std::string& owner, const OwnerLimits& limits) const {
  if (limits.tokens_per_minute <= 0) return 0;
  return context->shared->tokens_by_owner.Of(owner)->WaitMs(limits.tokens_per_minute, context->clock.MonotonicNs());
}

int64_t SessionTable::TokensWaitMs(const Caller& caller) const {
  return state_->TokensWaitMs(caller.principal, options().LimitsOf(caller.principal));
}

TokenShare SessionTable::TokensOf(const Caller& caller) const {
  const int64_t limit = options().LimitsOf(caller.principal).tokens_per_minute;
  if (limit <= 0) return {};
  const SessionContext& context = *state_->context;
  return context.shared->tokens_by_owner.Of(caller.principal)->Share(limit, context.clock.MonotonicNs());
}

Result<std::shared_ptr<void>> SessionTable::State::TakePermit(const std::string& owner) {
  const OwnerLimits limits = context->options.LimitsOf(owner);
  if (TokensWaitMs(owner, limits) > 0) {
    return Status(
        StatusCode::kOverloaded,
        "Your tokens of this minute are used up: you may have " + std::to_string(limits.tokens_per_minute) + ".", "",
        "rate_limit_exceeded");
  }
  const int64_t limit = limits.turns;
  if (limit <= 0) return std::shared_ptr<void>();
  std::lock_guard lock(turns->mutex);
  int64_t& count = turns->by_owner[owner];
  if (count >= limit) {
    return Status(StatusCode::kOverloaded,
                  "You have as many answers running and waiting as you may: " + std::to_string(limit) + ".", "",
                  "rate_limit_exceeded");
  }
  ++count;
  return std::shared_ptr<void>(nullptr, [turns = turns, owner](void*) {
    std::lock_guard lock(turns->mutex);
    const auto at = turns->by_owner.find(owner);
    if (--at->second == 0) turns->by_owner.erase(at);
  });
}

}  // namespace ringside
