// The table's maps: look-ups in memory and in the journal, and eviction from memory.
#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "base/defect.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/worker_pool.h"
#include "session/history_text.h"
#include "session/ids.h"
#include "session/table/table_state.h"

namespace ringside {
namespace {

constexpr char kInconsistentSummary[] = "its summary is inconsistent";

}  // namespace

Status SessionTable::Open() {
  State& state = *state_;
  if (state.journal == nullptr) return Status::Ok();
  std::vector<std::pair<double, std::pair<std::string, State::Known>>> found;
  std::vector<std::string> senseless;
  const double now_s = state.context->uptime_s();
  RETURN_IF_ERROR(state.journal->ForEachHead([&](const JournalHead& head) {
    // An unreadable summary leaves the session without an owner; an outdated one lacks the last use.
    SessionSummary summary;
    auto read = DecodeSummary(head.summary);
    if (read.ok()) {
      summary = *std::move(read);
    } else if (head.damage.empty()) {
      senseless.emplace_back(head.session);
    }
    State::Known known;
    *state.context->shared->stored_by_owner.Of(summary.owner) += static_cast<int64_t>(head.last.bytes);
    known.owner = std::move(summary.owner);
    known.used_s = read.ok() && summary.seq == head.last.seq ? summary.used_s : now_s;
    found.push_back({summary.created_at, {std::string(head.session), std::move(known)}});
  }));
  for (const std::string& session : senseless) state.journal->MarkDamaged(session, kInconsistentSummary);
  std::lock_guard lock(state.mutex);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [created_at, session] : found) session.second.ordinal = state.order.next++;
  // The first one added counts as least recently used.
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.second.second.used_s < b.second.second.used_s; });
  for (auto& [created_at, session] : found) state.AddKnownLocked(session.first, std::move(session.second));
  return Status::Ok();
}

bool SessionTable::Knows(const std::string& key) const {
  std::lock_guard lock(state_->mutex);
  return state_->sessions.contains(key);
}

void SessionTable::State::AddKnownLocked(const std::string& key, Known known) {
  const bool conversation = key.starts_with("conv_");
  ++(conversation ? counts.conversations : counts.chains);
  if (known.session != nullptr) ++counts.loaded;
  if (conversation) owners[known.owner].emplace(known.ordinal, key);
  UseLocked(key, sessions.emplace(key, std::move(known)).first->second);
}

void SessionTable::State::UseLocked(const std::string& key, Known& known) {
  const uint64_t before = std::exchange(known.last_used, ++order.uses);
  if (key.starts_with("conv_")) return;
  OwnersSessions& chains = chains_of[known.owner];
  chains.erase(before);
  chains.emplace(known.last_used, key);
}

void SessionTable::State::RemoveKnownLocked(const std::string& key) {
  const auto at = sessions.find(key);
  if (at == sessions.end()) return;
  const bool conversation = key.starts_with("conv_");
  --(conversation ? counts.conversations : counts.chains);
  if (at->second.session != nullptr) --counts.loaded;
  auto& by_owner = conversation ? owners : chains_of;
  if (const auto owner = by_owner.find(at->second.owner); owner != by_owner.end()) {
    owner->second.erase(conversation ? at->second.ordinal : at->second.last_used);
    if (owner->second.empty()) by_owner.erase(owner);
  }
  sessions.erase(at);
}

Result<std::shared_ptr<Session>> SessionTable::State::Get(const std::string& key, const std::string& owner) {
  {
    std::lock_guard lock(mutex);
    const auto at = sessions.find(key);
    if (at == sessions.end() || at->second.owner != owner) return NoConversation(key);
    UseLocked(key, at->second);
    if (at->second.session != nullptr) return at->second.session;
  }
  return Load(key);
}

Result<std::shared_ptr<Session>> SessionTable::State::Load(const std::string& key) {
  ASSIGN_OR_RETURN(DiskWait wait, DiskWait::Begin());  // also for the lock: its holder reads the disk
  std::lock_guard one(loading[std::hash<std::string>()(key) % loading.size()]);
  {
    std::lock_guard lock(mutex);
    const auto at = sessions.find(key);
    if (at == sessions.end()) return NoConversation(key);
    if (at->second.session != nullptr) return at->second.session;
  }
  if (const auto damage = journal->DamageOf(key)) return DamagedSession(key, *damage);
  ASSIGN_OR_RETURN(const JournalTranscript transcript, ReadTranscript(key));
  wait.End();
  // A session of a missing model is read, but its turns are refused.
  const std::string model = context->options.models != nullptr ? ModelOf(transcript) : "";
  auto own = models.Open(model);
  auto session = Session::Load(own.ok() ? *own : context, key, transcript);
  if (!session.ok()) return MarkInconsistent(key, session.status());
  std::lock_guard lock(mutex);
  const auto at = sessions.find(key);
  if (at == sessions.end()) return NoConversation(key);  // deleted meanwhile
  at->second.session = *session;
  ++counts.loaded;
  ++counts.loads;
  RegisterLoaded(key, *session);
  return *session;
}

Result<JournalTranscript> SessionTable::State::ReadTranscript(const std::string& key) {
  auto transcript = journal->Read(key);
  if (transcript.status().code() == StatusCode::kNotFound) return NoConversation(key);
  return transcript;
}

// The bytes are intact, so a faulty or another version wrote them.
Status SessionTable::State::MarkInconsistent(const std::string& key, const Status& why) {
  journal->MarkDamaged(key, why.message());
  return DamagedSession(key, why.message());
}

Result<uint64_t> SessionTable::State::CheckStored(const std::string& key) {
  ASSIGN_OR_RETURN(const JournalTranscript transcript, ReadTranscript(key));
  if (!DecodeSummary(transcript.summary).ok()) return MarkInconsistent(key, Corruption(kInconsistentSummary));
  const auto own = models.Known(ModelOf(transcript));
  const Status loads = Session::Load(own, key, transcript, /*only_checks=*/true).status();
  if (!loads.ok()) return MarkInconsistent(key, loads);
  return transcript.last.seq;
}

// REQUIRES: the mutex is held; no other thread has the session.
void SessionTable::State::RegisterLoaded(const std::string& key, const std::shared_ptr<Session>& session) {
  size_t registered = 0;
  for (const std::shared_ptr<Response>& response : session->Responses()) {
    if (!response->stored) continue;
    if (!response->request_key.empty()) request_keys.Load(response->request_key, response->id, response->begun_s);
    responses.emplace(response->id, Entry{key, session, response, response->request_key});
    ++registered;
  }
  sessions.at(key).responses = registered;
}

Result<std::shared_ptr<Session>> SessionTable::State::Find(const Caller& caller, const std::string& id) {
  if (!id.starts_with("conv_")) return NoConversation(id);
  return Get(id, caller.principal);
}

std::optional<SessionTable::State::Found> SessionTable::State::FindLoaded(const Caller& caller, const std::string& id) {
  std::lock_guard lock(mutex);
  const auto at = responses.find(id);
  if (at == responses.end()) return std::nullopt;
  const Entry& entry = at->second;
  std::shared_ptr<Session> session = entry.session.lock();
  if (session == nullptr || session->owner() != caller.principal) return std::nullopt;
  // `connection` is written before the response is registered and never again.
  if (entry.response->connection != 0 && entry.response->connection != caller.connection) return std::nullopt;
  if (const auto known = sessions.find(entry.key); known != sessions.end()) UseLocked(entry.key, known->second);
  return Found{std::move(session), entry.response};
}

Result<SessionTable::State::Found> SessionTable::State::FindResponse(const Caller& caller, const std::string& id) {
  if (auto found = FindLoaded(caller, id)) return std::move(*found);
  const std::string part(SessionPartOf(id));
  if (journal == nullptr || part.empty()) return NoResponse(id);
  for (const char* kind : {"conv_", "chain_"}) {
    const auto session = Get(kind + part, caller.principal);
    if (session.status().code() == StatusCode::kNotFound) continue;
    if (!session.ok()) return session.status();
    if (auto found = FindLoaded(caller, id)) return std::move(*found);
  }
  return NoResponse(id);
}

Status SessionTable::State::AddSession(const std::shared_ptr<Session>& session) {
  const int64_t limit = context->options.LimitsOf(session->owner()).sessions;
  {
    std::lock_guard lock(mutex);
    const auto owner = owners.find(session->owner());
    const auto making = being_made.find(session->owner());
    const int64_t held = (owner == owners.end() ? 0 : static_cast<int64_t>(owner->second.size())) +
                         (making == being_made.end() ? 0 : making->second);
    if (limit > 0 && held >= limit) {
      return {StatusCode::kOverloaded, "You have as many conversations as you may: " + std::to_string(limit) + ".", "",
              "rate_limit_exceeded"};
    }
    if (sessions.size() >= static_cast<size_t>(limits::kMaxSessions)) {
      return Overloaded("The server's limit of conversations is reached.");
    }
    ++being_made[session->owner()];
  }
  const Status created = session->Create();
  std::lock_guard lock(mutex);
  if (--being_made[session->owner()] == 0) being_made.erase(session->owner());
  RETURN_IF_ERROR(created);
  AddKnownLocked(
      session->key(),
      {.ordinal = order.next++, .owner = session->owner(), .used_s = context->uptime_s(), .session = session});
  return Status::Ok();
}

Status SessionTable::State::Delete(const std::string& key) {
  ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
  const auto told = std::make_shared<std::promise<Status>>();
  RETURN_IF_ERROR(Remove(key, [told](const Status& status, const JournalPosition&) { told->set_value(status); }));
  return told->get_future().get();
}

void SessionTable::State::DeleteLater(const std::string& key) {
  const auto log = [key](const Status& status) {
    if (!status.ok()) LogWarning("session {}: {}", key, status.message());
  };
  log(Remove(key, [log](const Status& status, const JournalPosition&) { log(status); }));
}

Status SessionTable::State::Remove(const std::string& key, const JournalDone& done) {
  std::shared_ptr<Session> session;
  std::string owner;
  std::shared_ptr<void> name;  // reserved until the journal has it in its queue: a new chain may have the same one
  {
    std::scoped_lock lock(mutex, reserved->mutex);
    const auto at = sessions.find(key);
    if (at == sessions.end()) return NoConversation(key);
    session = at->second.session;
    owner = at->second.owner;
    name = ReserveLocked(key);
    RemoveKnownLocked(key);
  }
  HistoriesWith(key).Erase(key);
  TimelineId timeline = 0;
  if (session == nullptr) {
    if (const auto last = journal->Last(key); last.ok()) {
      *context->shared->stored_by_owner.Of(owner) -= static_cast<int64_t>(last->bytes);
    }
  } else {
    if (const TurnId turn = session->Running(""); turn != 0) engine.Cancel(turn);
    session->Gone();
    Forget(session->ResponseIds());
    timeline = session->engine_timeline();
  }
  engine.Erase(timeline, key);
  if (journal != nullptr && (session == nullptr || session->durable())) return journal->Erase(key, done);
  done(Status::Ok(), {});
  return Status::Ok();
}

bool SessionTable::State::ForgetLocked(const std::string& id) {
  const auto at = responses.find(id);
  if (at == responses.end()) return false;
  request_keys.Remove(at->second.request_key, id);
  const auto local = local_responses.find(at->second.response->connection);
  if (local != local_responses.end()) std::erase(local->second, id);
  const auto known = sessions.find(at->second.key);
  const bool orphan = known != sessions.end() && --known->second.responses == 0 && at->second.key.starts_with("chain_");
  responses.erase(at);
  return orphan;
}

void SessionTable::State::Forget(const std::vector<std::string>& ids) {
  for (const std::string& key : ForgetAll(ids)) DeleteLater(key);
}

std::vector<std::string> SessionTable::State::ForgetAll(const std::vector<std::string>& ids) {
  std::vector<std::string> orphans;
  {
    std::lock_guard lock(mutex);
    for (const std::string& id : ids) {
      const auto at = responses.find(id);
      std::string key = at == responses.end() ? "" : at->second.key;
      if (ForgetLocked(id)) orphans.push_back(std::move(key));
    }
  }
  return orphans;
}

Result<std::string> SessionTable::State::Register(const std::shared_ptr<Session>& session, bool fresh, Entry entry) {
  const std::shared_ptr<Response> response = entry.response;
  std::lock_guard lock(mutex);
  if (!fresh && !sessions.contains(entry.key)) return NoConversation(entry.key);
  if (!entry.request_key.empty()) {
    std::string known = request_keys.Add(entry.request_key, entry.sending, entry.asked, response->id);
    if (known != response->id) return known;
  }
  if (!sessions.contains(entry.key)) {
    AddKnownLocked(entry.key, {.ordinal = order.next++, .owner = session->owner(), .session = session});
  }
  Known& known = sessions.at(entry.key);
  known.used_s = context->uptime_s();
  ++known.responses;
  if (response->connection != 0) local_responses[response->connection].push_back(response->id);
  responses.emplace(response->id, std::move(entry));
  response_order.push_back(response->id);
  return response->id;
}

std::string SessionTable::State::FindRequest(const Caller& caller, const TurnSpec& spec, const std::string& key) {
  if (spec.sending == TurnSpec::Sending::kFirst) return "";
  // If it was answered before a restart, reads its session first.
  if (journal != nullptr) {
    if (!spec.conversation.empty()) (void)Find(caller, spec.conversation);
    if (!spec.previous_response_id.empty()) (void)FindResponse(caller, spec.previous_response_id);
    (void)Get(HashedId("chain_", key), caller.principal);
    if (spec.carries_history) LoadHistories(caller, HistoryPrefix(spec));
  }
  std::string known;
  {
    std::lock_guard lock(mutex);
    if (!RINGSIDE_DEFECT("request_not_recognised")) known = request_keys.Find(key);
  }
  if (spec.sending != TurnSpec::Sending::kAgain || known.empty()) return known;
  const Result<Found> found = FindResponse(caller, known);
  if (found.ok() && IsRecent(*found)) return known;
  std::lock_guard lock(mutex);
  request_keys.Remove(key, known);
  return "";
}

bool SessionTable::State::IsRecent(const Found& found) const {
  const double now_s = context->uptime_s();
  return found.session->Locked([&] {
    const Response& response = *found.response;
    if (response.running()) return true;
    return response.status != ResponseStatus::kFailed &&
           now_s - response.ended_s <= static_cast<double>(limits::kRepeatSeconds);
  });
}

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
  if (const int64_t stored = *context->shared->stored_by_owner.Of(owner); most_stored > 0 && stored > most_stored) {
    return Status(StatusCode::kOverloaded,
                  fmt::format("Your conversations hold {} MiB of the disk; they may hold {} "
                              "(--max-stored-mb-per-owner). Deleting some makes room.",
                              stored >> 20, most_stored >> 20),
                  "", "rate_limit_exceeded");
  }
  return Status::Ok();
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
    for (const std::string& id : session->ResponseIds()) {
      if (const auto response = responses.find(id); response != responses.end()) {
        request_keys.Remove(response->second.request_key, id);
        responses.erase(response);
      }
    }
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

void SessionTable::State::CloseRetired() {
  for (const auto [timeline, keep] : context->shared->retired.Take())
    keep ? engine.Park(timeline) : engine.Close(timeline);
}

void SessionTable::State::DeleteExpired() {
  const double ttl_s = static_cast<double>(context->options.session_ttl_s), now_s = context->uptime_s();
  constexpr double kInterval_s = 60;
  std::vector<std::string> expired;
  {
    std::lock_guard lock(mutex);
    if (ttl_s <= 0 || now_s < next_expiry_s) return;
    next_expiry_s = now_s + std::min(kInterval_s, ttl_s / 4);
    for (const auto& [key, known] : sessions) {
      const bool idle = known.session == nullptr || (known.session.use_count() == 1 && known.session->idle());
      if (known.used_s + ttl_s < now_s && idle) expired.push_back(key);
    }
    counts.expired += expired.size();
  }
  if (!expired.empty()) {
    LogInfo("{} conversations and chains are deleted: unused for {} s of this store's uptime (--session-ttl)",
            expired.size(), context->options.session_ttl_s);
  }
  for (const std::string& key : expired) DeleteLater(key);
}

void SessionTable::Sweep() {
  state_->CloseRetired();
  state_->WriteSummaries();
  if (state_->journal != nullptr) state_->journal->NoteUptime();
  state_->DeleteExpired();
  state_->EvictIdleHistories();
  state_->EndLateTurns();
  const int64_t budget = state_->context->options.transcript_bytes;
  if (state_->journal != nullptr && state_->context->shared->bytes > budget / 10 * 9) {
    state_->Unload(state_->context->shared->bytes, budget / 5 * 4);
  }
}

// All turns have the same time limit: the first to expire are the first that started.
void SessionTable::State::EndLateTurns() {
  const int64_t timeout_s = context->options.turn_timeout_s;
  if (timeout_s <= 0) return;
  std::deque<StartedTurn> running;
  {
    std::lock_guard lock(mutex);
    running.swap(started);
  }
  const int64_t begun_before = context->clock.MonotonicNs() - timeout_s * 1'000'000'000;
  std::erase_if(running, [&](const StartedTurn& begun) {
    const std::shared_ptr<Session> session = begun.session.lock();
    if (session == nullptr || session->Running("") != begun.turn) return true;
    if (begun.started_ns >= begun_before) return false;
    session->WithTurns([&](TurnProgress& turns) { turns.EndEarly(begun.turn, "turn_timeout"); });
    return true;
  });
  std::lock_guard lock(mutex);
  started.insert(started.begin(), running.begin(), running.end());
}

bool SessionTable::Flush(std::optional<std::chrono::milliseconds> most) {
  return state_->journal == nullptr || state_->journal->Flush(most);
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
