// Sessions of a store that several servers share. This server's maps have the sessions that it may write: those that it
// has claimed. Others are read without a claim. A session is given back when another server asks for it or it is
// unused.
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/limits.h"
#include "base/log.h"
#include "base/worker_pool.h"
#include "session/table/table_state.h"

namespace ringside {
namespace {

using std::chrono::milliseconds;

// A server that has the session at rest gives it back within one sync and one message.
constexpr milliseconds kPatience{2'000}, kShortestPause{5}, kLongestPause{100};

Status OutOfTouch() { return Unavailable("This server has lost touch with the store; try again, or another server."); }

/// Converts kIo: the lease was taken while the store was asked, and the process ends.
Status OrUnavailable(Status status) { return status.code() == StatusCode::kIo ? OutOfTouch() : status; }

/// The store will soon say where the session is, or that it was deleted.
Status Leaving() {
  return {StatusCode::kBusy, "The conversation is being handed over or deleted; try again in a moment.", "conversation",
          "conversation_locked"};
}

}  // namespace

std::shared_ptr<Session> SessionTable::State::Shared::Loaded(const std::string& key) const {
  std::lock_guard lock(table_.mutex);
  const auto at = table_.sessions.find(key);
  return at == table_.sessions.end() ? nullptr : at->second.session;
}

void SessionTable::State::Shared::Open() {
  log_->OnAskedFor([this](const std::string& key) { table_.work.Post([this, key] { GiveBack(key); }); });
}

Status SessionTable::State::Shared::CheckLease() const {
  return log_ == nullptr || log_->HoldsLease() ? Status::Ok() : OutOfTouch();
}

Status SessionTable::State::Shared::AwaitWrites(const std::string& key) const {
  if (log_ == nullptr) return Status::Ok();
  ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
  return table_.journal->Flush(kPatience, &key) ? CheckLease() : OutOfTouch();
}

bool SessionTable::State::Shared::MayKnow(const std::string& key) const {
  return log_->Find(key, std::nullopt).status().code() != StatusCode::kNotFound;
}

std::vector<std::string> SessionTable::State::Shared::Existing(const std::string& owner,
                                                               const std::vector<std::string>& keys) const {
  if (keys.empty()) return {};
  const Result<DiskWait> wait = DiskWait::Begin();
  if (!wait.ok()) return {};
  auto existing = log_->Existing(owner, keys);
  return existing.ok() ? *std::move(existing) : std::vector<std::string>();
}

Result<std::string> SessionTable::State::Shared::OwnerOf(const std::string& key) const {
  ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
  ASSIGN_OR_RETURN(const JournalSummary stored, table_.journal->Summary(key));
  ASSIGN_OR_RETURN(SessionSummary summary, DecodeSummary(stored.summary));
  return std::move(summary.owner);
}

Result<std::shared_ptr<Session>> SessionTable::State::Shared::Get(const std::string& key, const std::string& owner,
                                                                  Use use) {
  if (key.starts_with(TieredStore::kMemoryOnly)) return NoConversation(key);
  if (use == Use::kChange) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      RETURN_IF_ERROR(Claim(key, owner));
      auto loaded = table_.Load(key);
      // Between the two it may have been given back, or deleted: then Claim does not find it.
      if (loaded.status().code() != StatusCode::kNotFound) return loaded;
      if (std::chrono::steady_clock::now() > end) return Leaving();
    }
  }
  return View(key, owner);
}

Result<SessionPlace> SessionTable::State::Shared::PlaceOf(const std::string& key, const std::string& owner) const {
  Result<SessionPlace> place = log_->Find(key, owner);
  if (place.status().code() == StatusCode::kNotFound) return NoConversation(key);
  return place.ok() ? place : OrUnavailable(place.status());
}

Result<std::shared_ptr<Session>> SessionTable::State::Shared::View(const std::string& key, const std::string& owner) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    ASSIGN_OR_RETURN(DiskWait wait, DiskWait::Begin());
    ASSIGN_OR_RETURN(const SessionPlace place, PlaceOf(key, owner));
    wait.End();
    if (place.mine) {  // it is being claimed or given back
      auto loaded = table_.Load(key);
      if (loaded.status().code() != StatusCode::kNotFound) return loaded;
    }
    ASSIGN_OR_RETURN(DiskWait reading, DiskWait::Begin());
    ASSIGN_OR_RETURN(const JournalTranscript transcript, table_.ReadTranscript(key));
    const auto load = [&](Session::Purpose purpose) {
      auto session = Session::Load(table_.models.Known(ModelOf(transcript)), key, transcript, purpose);
      return session.ok() ? session : table_.MarkInconsistent(key, session.status());
    };
    auto session = load(Session::Purpose::kView);
    const bool writes = place.live && place.incarnation == transcript.writer;
    if (!session.ok() || writes || (*session)->idle(/*may_be_attached=*/true)) return session;
    // The process that wrote the turn does not have the session any more: the turn was cut, if that was so before the
    // records were read.
    ASSIGN_OR_RETURN(const SessionPlace after, PlaceOf(key, owner));
    if (after == place) return load(Session::Purpose::kCheck);
  } while (std::chrono::steady_clock::now() < end);
  return Leaving();
}

Result<SessionTable::State::Found> SessionTable::State::Shared::FindRunning(const Caller& caller,
                                                                            const std::string& id) {
  auto found = table_.FindResponse(caller, id, Use::kRead);
  if (!found.ok() || log_ == nullptr) return found;
  const bool running = found->session->Locked([&] { return found->response->running(); });
  return running ? table_.FindResponse(caller, id, Use::kChange) : found;
}

Status SessionTable::State::Shared::Claim(const std::string& key, const std::string& owner) {
  ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
  RETURN_IF_ERROR(PlaceOf(key, owner).status());
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (milliseconds pause = kShortestPause;; pause = std::min(2 * pause, kLongestPause)) {
    const Status claimed = ClaimNow(key, owner);
    if (claimed.code() != StatusCode::kBusy || std::chrono::steady_clock::now() > end) return OrUnavailable(claimed);
    RETURN_IF_ERROR(OrUnavailable(log_->AskFor(key)));
    std::this_thread::sleep_for(pause);
  }
}

Status SessionTable::State::Shared::ClaimNow(const std::string& key, const std::string& owner) {
  std::lock_guard one(table_.loading.Of(key));  // not while it is given back
  {
    std::scoped_lock lock(table_.mutex, table_.reserved->mutex);
    if (table_.reserved->names.contains(key)) return Leaving();
    if (const auto at = table_.sessions.find(key); at != table_.sessions.end()) {
      return at->second.owner == owner ? Status::Ok() : NoConversation(key);
    }
  }
  const Status claimed = table_.journal->Claim(key);
  if (claimed.code() == StatusCode::kNotFound) return NoConversation(key);
  RETURN_IF_ERROR(claimed);
  std::lock_guard lock(table_.mutex);
  table_.AddKnownLocked(key, {.ordinal = table_.order.next++, .owner = owner, .used_s = table_.context->uptime_s()});
  return Status::Ok();
}

void SessionTable::State::Shared::GiveBack(const std::string& key) {
  std::lock_guard one(table_.loading.Of(key));
  std::shared_ptr<Session> session;
  std::shared_ptr<void> name;  // reserved until the store has released it
  {
    std::scoped_lock lock(table_.mutex, table_.reserved->mutex);
    const auto at = table_.sessions.find(key);
    if (at == table_.sessions.end()) return;
    session = at->second.session;
    constexpr int kUses = 2;  // the map's and ours: no request has it
    if (session != nullptr &&
        (session.use_count() != kUses || !session->durable() || !session->idle(/*may_be_attached=*/true)))
      return;
    if (session != nullptr) table_.DropResponsesLocked(*session);
    table_.RemoveKnownLocked(key);
    name = table_.ReserveLocked(key);
    ++table_.counts.unloads;
  }
  if (session != nullptr) {
    session->WriteSummary(/*last=*/true);
    session->Leave(Session::Left::kForAnotherServer);
  }
  table_.HistoriesWith(key).Erase(key);
  const auto done = [key, name](const Status& status, const JournalPosition&) {
    if (!status.ok()) LogWarning("session {} is not given back: {}", key, status.message());
  };
  if (const Status refused = table_.journal->Release(key, done); !refused.ok()) done(refused, {});
}

void SessionTable::State::Shared::Refresh(const std::string& key, const std::string& owner) {
  constexpr int kMost = 16;
  if (refreshing_ >= kMost) return;
  ++refreshing_;
  table_.work.Post([this, key, owner] {
    const Result<SessionPlace> place = log_->Find(key, owner);
    if (place.ok() && (place->mine || !place->live)) {
      if (const auto session = table_.Get(key, owner, Use::kChange); session.ok()) (*session)->Changed();
    }
    --refreshing_;
  });
}

void SessionTable::State::Shared::HandOver(bool all) {
  hands_over_ = all;
  if (all) Sweep();
}

void SessionTable::State::Shared::Sweep() {
  constexpr double kUnused_s = 600;
  const bool all = hands_over_;
  std::vector<std::string> unused;
  {
    const double before_s = table_.context->uptime_s() - kUnused_s;
    std::lock_guard lock(table_.mutex);
    for (const auto& [key, known] : table_.sessions) {
      if ((known.used_s >= before_s && !all) || key.starts_with(TieredStore::kMemoryOnly)) continue;
      if (known.session == nullptr || (known.session.use_count() == 1 && known.session->idle(all)))
        unused.push_back(key);
    }
  }
  for (const std::string& key : unused) GiveBack(key);
}

bool SessionTable::State::Shared::DeleteIdle(const std::string& key, const std::string& owner) {
  if (const auto loaded = Loaded(key); loaded != nullptr && !loaded->idle()) return false;
  if (!ClaimNow(key, owner).ok()) return false;
  table_.DeleteLater(key);
  return true;
}

Result<std::vector<ListedSession>> SessionTable::State::Shared::List(const std::string& owner, const std::string& after,
                                                                     int64_t limit, bool* more) const {
  ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
  auto listed = table_.journal->List(owner, after, limit + 1);
  if (listed.status().code() == StatusCode::kNotFound) return NoConversation(after);
  if (!listed.ok()) return listed;
  *more = std::ssize(*listed) > limit;
  if (*more) listed->pop_back();
  return listed;
}

Result<SessionPage> SessionTable::State::Shared::ListPage(const std::string& owner, const std::string& after,
                                                          int64_t limit) const {
  SessionPage page;
  ASSIGN_OR_RETURN(const std::vector<ListedSession> listed, List(owner, after, limit, &page.has_more));
  for (const ListedSession& one : listed) {
    const Status damage = one.damage.empty() ? Status::Ok() : DamagedSession(one.session, one.damage);
    const auto loaded = Loaded(one.session);
    if (loaded != nullptr) RETURN_IF_ERROR(AwaitWrites(one.session));
    Result<SessionInfo> info =
        loaded != nullptr
            ? table_.InfoOf(*loaded)
            : table_.DescribeStored(one.session, owner, damage.ok() ? Result<JournalSummary>(one.stored) : damage);
    if (info.status().code() == StatusCode::kNotFound) continue;  // deleted meanwhile
    if (!info.ok()) return info.status();
    page.sessions.push_back(*std::move(info));
  }
  return page;
}

std::vector<OwnerTotals> SessionTable::State::Shared::Owners() const {
  std::vector<OwnerTotals> owners;
  const Result<std::vector<SharedTotals>> all = log_->AllTotals();
  if (!all.ok()) LogWarning("{}", all.status().message());
  for (const SharedTotals& totals : all.ok() ? *all : std::vector<SharedTotals>()) {
    Result<std::string> owner = OwnerOf(totals.sample);
    if (!owner.ok()) continue;  // deleted meanwhile, or damaged
    owners.push_back({.owner = *std::move(owner),
                      .conversations = totals.conversations,
                      .chains = totals.chains,
                      .stored_bytes = totals.stored_bytes});
  }
  return owners;
}

void SessionTable::State::Shared::TrimChains(const std::string& owner, int64_t limit) {
  constexpr int64_t kMost = 16;
  const Result<SharedTotals> all = totals_.Of(owner);
  if (!all.ok() || all->chains <= limit) return;
  const auto old = log_->OldChains(owner, limit, kMost);
  if (!old.ok()) return LogWarning("{}", old.status().message());
  for (const std::string& key : *old) DeleteIdle(key, owner);
}

void SessionTable::State::Shared::DeleteUnused(double used_before_s) {
  constexpr int64_t kMost = 256;
  const auto unused = log_->UnusedSince(used_before_s, kMost);
  if (!unused.ok()) return LogWarning("{}", unused.status().message());
  uint64_t deleted = 0;
  for (const std::string& key : *unused) {
    const Result<std::string> owner = OwnerOf(key);
    if (owner.ok() && DeleteIdle(key, *owner)) ++deleted;
  }
  if (deleted == 0) return;
  LogInfo("{} conversations and chains are deleted: unused for {} s of this store's uptime (--session-ttl)", deleted,
          table_.context->options.session_ttl_s);
  std::lock_guard lock(table_.mutex);
  table_.counts.expired += deleted;
}

}  // namespace ringside
