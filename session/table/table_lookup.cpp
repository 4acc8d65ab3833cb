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
#include "session/table/restore_deltas.h"
#include "session/table/table_state.h"

namespace ringside {
namespace {

constexpr char kInconsistentSummary[] = "its summary is inconsistent";

}  // namespace

Status SessionTable::Open() {
  State& state = *state_;
  if (state.journal == nullptr) return Status::Ok();
  if (state.shared) {  // sessions are looked up when they are needed
    RETURN_IF_ERROR(RestoreDeltas(*state.journal));
    state.shared.Open();
    return Status::Ok();
  }
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
  if (state_->shared) return state_->shared.MayKnow(key);
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

Result<std::shared_ptr<Session>> SessionTable::State::Get(const std::string& key, const std::string& owner, Use use) {
  RETURN_IF_ERROR(shared.CheckLease());
  std::shared_ptr<Session> session;
  bool known = true;
  {
    std::lock_guard lock(mutex);
    const auto at = sessions.find(key);
    known = at != sessions.end();
    if (known ? at->second.owner != owner : !shared) return NoConversation(key);
    if (known) UseLocked(key, at->second);
    if (known) session = at->second.session;
  }
  if (session != nullptr) {
    if (use == Use::kRead) RETURN_IF_ERROR(shared.AwaitWrites(key));
    return session;
  }
  auto loaded = known ? Load(key) : shared.Get(key, owner, use);
  // It may have been given back meanwhile.
  const bool again = known && shared && loaded.status().code() == StatusCode::kNotFound;
  return again ? shared.Get(key, owner, use) : loaded;
}

Result<std::shared_ptr<Session>> SessionTable::State::Load(const std::string& key) {
  ASSIGN_OR_RETURN(DiskWait wait, DiskWait::Begin());  // also for the lock: its holder reads the disk
  std::lock_guard one(loading.Of(key));
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
  const Status loads = Session::Load(own, key, transcript, Session::Purpose::kCheck).status();
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

Result<std::shared_ptr<Session>> SessionTable::State::Find(const Caller& caller, const std::string& id, Use use) {
  if (!id.starts_with("conv_")) return NoConversation(id);
  return Get(id, caller.principal, use);
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

Result<SessionTable::State::Found> SessionTable::State::FindResponse(const Caller& caller, const std::string& id,
                                                                     Use use) {
  RETURN_IF_ERROR(shared.CheckLease());
  if (auto found = FindLoaded(caller, id)) {
    if (use == Use::kRead) RETURN_IF_ERROR(shared.AwaitWrites(found->session->key()));
    return std::move(*found);
  }
  const std::string part(SessionPartOf(id));
  if (journal == nullptr || part.empty()) return NoResponse(id);
  for (const char* kind : {"conv_", "chain_"}) {
    const auto session = Get(kind + part, caller.principal, use);
    if (session.status().code() == StatusCode::kNotFound) continue;
    if (!session.ok()) return session.status();
    if (auto found = FindLoaded(caller, id)) return std::move(*found);
    if (!shared || use == Use::kChange) continue;
    for (const std::shared_ptr<Response>& response : (*session)->Responses()) {
      if (response->id == id && response->stored) return Found{*session, response};
    }
  }
  return NoResponse(id);
}

Status SessionTable::State::AddSession(const std::shared_ptr<Session>& session) {
  const int64_t limit = context->options.LimitsOf(session->owner()).sessions;
  std::optional<int64_t> stored;  // of all servers
  if (shared && limit > 0) {
    ASSIGN_OR_RETURN(const SharedTotals all, shared.TotalsOf(session->owner()));
    stored = all.conversations;
  }
  {
    std::lock_guard lock(mutex);
    const auto owner = owners.find(session->owner());
    const auto making = being_made.find(session->owner());
    const int64_t here = owner == owners.end() ? 0 : std::ssize(owner->second);
    const int64_t held = stored.value_or(here) + (making == being_made.end() ? 0 : making->second);
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
  if (shared) shared.CountNew(session->owner(), true);
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
    session->Leave(Session::Left::kDeleted);
    Forget(session->ResponseIds());
    timeline = session->engine_timeline();
  }
  engine.Erase(timeline, key);
  if (journal != nullptr && (session == nullptr || session->durable())) {
    if (!shared) return journal->Erase(key, done);
    // Until it is erased the database would give it to the next who asks.
    return journal->Erase(key, [done, name](const Status& status, const JournalPosition& last) { done(status, last); });
  }
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
    if (shared) shared.CountNew(session->owner(), false);
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

Result<std::string> SessionTable::State::FindRequest(const Caller& caller, const TurnSpec& spec,
                                                     const std::string& key) {
  if (spec.sending == TurnSpec::Sending::kFirst) return std::string();
  // If it was answered before a restart, reads its session first.
  if (journal != nullptr) {
    const auto unless_locked = [](const Status& found) {
      return found.code() == StatusCode::kBusy ? found : Status::Ok();
    };
    if (!spec.conversation.empty()) RETURN_IF_ERROR(unless_locked(Find(caller, spec.conversation).status()));
    if (!spec.previous_response_id.empty()) {
      RETURN_IF_ERROR(unless_locked(FindResponse(caller, spec.previous_response_id).status()));
    }
    RETURN_IF_ERROR(unless_locked(Get(HashedId("chain_", key), caller.principal).status()));
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
  return std::string();
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
  }
  if (shared) return shared.DeleteUnused(now_s - ttl_s);
  {
    std::lock_guard lock(mutex);
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
  if (state_->shared) state_->shared.Sweep();
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

}  // namespace ringside
