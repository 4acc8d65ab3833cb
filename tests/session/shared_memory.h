// A shared store in memory, and the log that each of its servers opens: the reference for what a database has to do.
// THREAD: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "session/journal/journal_format.h"
#include "session/journal/journal_log.h"
#include "session/journal/shared_log.h"

namespace ringside {

/// What the servers share.
struct SharedMemory {
  struct Session {
    SessionLabel label;
    std::string server;  // "" = none
    bool reserved = true;
  };
  std::mutex mutex;
  std::map<std::string, std::string> rows;
  std::map<std::string, Session> sessions;
  std::map<std::string, bool> live;  // lease by server
  std::map<std::string, std::function<void(const std::string&)>> asked;
  int64_t claims = 0, incarnations = 0;
  std::map<std::string, int64_t> incarnation_of;  // by server

  /// The server's lease ends: the next claim takes its sessions.
  void EndLease(const std::string& server) {
    std::lock_guard lock(mutex);
    live[server] = false;
  }
};

class SharedMemoryLog final : public JournalLog, public SharedLog {
 public:
  SharedMemoryLog(std::shared_ptr<SharedMemory> store, std::string server, const Clock& clock)
      : store_(std::move(store)), server_(std::move(server)), clock_(clock) {
    std::lock_guard lock(store_->mutex);
    store_->live[server_] = true;
    incarnation_ = store_->incarnation_of[server_] = ++store_->incarnations;
    for (auto& [key, session] : store_->sessions) {
      if (session.server == server_) session.server.clear();
    }
  }
  ~SharedMemoryLog() override {
    std::lock_guard lock(store_->mutex);
    if (!store_->live[server_]) return;
    for (auto& [key, session] : store_->sessions) {
      if (session.server == server_) session.server.clear();
    }
  }

  // JournalLog.
  Status Commit(const std::vector<RowChange>& changes) override {
    {
      std::lock_guard lock(store_->mutex);
      if (!store_->live[server_] || refuses_commits) return IoError("fenced");
      auto rows = store_->rows;
      auto sessions = store_->sessions;
      for (const RowChange& change : changes) RETURN_IF_ERROR(Apply(change, &rows, &sessions));
      store_->rows = std::move(rows);
      store_->sessions = std::move(sessions);
    }
    if (before_reply) before_reply();
    return Status::Ok();
  }
  Status CheckPlace() const override { return Fenced() ? IoError("fenced") : Status::Ok(); }
  JournalCursor Cursor() const override {
    std::lock_guard lock(store_->mutex);
    return JournalCursor(std::make_unique<Rows>(store_->rows));
  }
  int64_t FreeBytes() const override { return int64_t{1} << 40; }
  Status Rewrite(const std::vector<std::pair<std::string, std::string>>&) override { return Status::Ok(); }
  Status Backup(const std::string&) const override { return Unavailable("a database is copied by its own means"); }
  SharedLog* shared() override { return alone ? nullptr : this; }

  // SharedLog.
  const std::string& server() const override { return server_; }
  int64_t incarnation() const override { return incarnation_; }
  Status Claim(const std::string& session) override {
    std::lock_guard lock(store_->mutex);
    const auto at = FindLocked(session);
    if (at == store_->sessions.end()) return NotFound("no session");
    if (!at->second.server.empty() && at->second.server != server_ && store_->live[at->second.server]) {
      return {StatusCode::kBusy, "Another server is using this conversation.", "conversation", "conversation_locked"};
    }
    at->second.server = server_;
    ++store_->claims;
    return Status::Ok();
  }
  Status AskFor(const std::string& session) override {
    std::function<void(const std::string&)> asked;
    {
      std::lock_guard lock(store_->mutex);
      const auto at = FindLocked(session);
      if (at != store_->sessions.end()) asked = store_->asked[at->second.server];
    }
    if (asked) asked(session);
    return Status::Ok();
  }
  void OnAskedFor(std::function<void(const std::string& session)> asked) override {
    std::lock_guard lock(store_->mutex);
    store_->asked[server_] = std::move(asked);
  }
  Result<std::vector<std::string>> Reserve(const std::vector<std::string>& sessions) override {
    std::lock_guard lock(store_->mutex);
    std::vector<std::string> existing;
    for (const std::string& session : sessions) {
      const auto [at, fresh] = store_->sessions.try_emplace(session, SharedMemory::Session{.server = server_});
      if (!fresh && (!at->second.reserved || at->second.server != server_)) existing.push_back(session);
    }
    return existing;
  }
  bool HoldsLease() const override { return holds_lease; }
  bool Fenced() const override {
    std::lock_guard lock(store_->mutex);
    return !store_->live[server_];
  }
  int64_t UptimeMs() const override { return clock_.MonotonicNs() / 1'000'000; }

  Result<SessionPlace> Find(const std::string& session, const std::optional<std::string>& owner) override {
    std::lock_guard lock(store_->mutex);
    const auto at = FindLocked(session);
    if (at == store_->sessions.end() || (owner && at->second.label.owner != *owner)) return NotFound("no session");
    const std::string& server = at->second.server;
    const bool live = !server.empty() && store_->live[server];
    return SessionPlace{server, server == server_, live, live ? store_->incarnation_of[server] : 0};
  }
  Result<std::vector<std::string>> Existing(const std::string& owner,
                                            const std::vector<std::string>& sessions) override {
    std::vector<std::string> existing;
    for (const std::string& session : sessions) {
      if (Find(session, owner).ok()) existing.push_back(session);
    }
    return existing;
  }
  Result<std::vector<SharedRow>> List(const std::string& owner, const std::string& after, int64_t limit) override {
    std::lock_guard lock(store_->mutex);
    std::vector<std::pair<double, std::string>> own;  // by creation
    for (const auto& [key, session] : store_->sessions) {
      if (!session.reserved && session.label.conversation && session.label.owner == owner)
        own.emplace_back(session.label.created_at, key);
    }
    std::sort(own.rbegin(), own.rend());
    auto at = own.begin();
    if (!after.empty()) {
      at = std::find_if(own.begin(), own.end(), [&](const auto& one) { return one.second == after; });
      if (at == own.end()) return NotFound("no session");
      ++at;
    }
    std::vector<SharedRow> out;
    for (; at != own.end() && std::ssize(out) < limit; ++at) {
      const std::string& key = at->second;
      out.push_back({key, Row(journal_format::HeadKey(key)), Row(journal_format::SummaryKey(key)),
                     Row(journal_format::DataKeyKey(key))});
    }
    return out;
  }
  Result<SharedTotals> Totals(const std::string& owner) override {
    std::lock_guard lock(store_->mutex);
    SharedTotals totals;
    for (const auto& [key, session] : store_->sessions) {
      if (!session.reserved && session.label.owner == owner) AddLocked(key, session, &totals);
    }
    return totals;
  }
  Result<std::vector<SharedTotals>> AllTotals() override {
    std::lock_guard lock(store_->mutex);
    std::map<std::string, SharedTotals> owners;
    for (const auto& [key, session] : store_->sessions) {
      if (!session.reserved) AddLocked(key, session, &owners[session.label.owner]);
    }
    std::vector<SharedTotals> all;
    for (auto& [owner, totals] : owners) all.push_back(std::move(totals));
    return all;
  }
  Result<std::vector<std::string>> OldChains(const std::string& owner, int64_t keep, int64_t limit) override {
    const auto wanted = [&](const SharedMemory::Session& session) {
      return !session.label.conversation && session.label.owner == owner;
    };
    std::vector<std::string> chains = ByUse(wanted, /*others=*/true);
    chains.resize(static_cast<size_t>(std::max<int64_t>(std::ssize(chains) - keep, 0)));
    const std::vector<std::string> free = ByUse(wanted, /*others=*/false);
    std::erase_if(chains, [&](const std::string& key) { return std::ranges::count(free, key) == 0; });
    if (std::ssize(chains) > limit) chains.resize(static_cast<size_t>(limit));
    return chains;
  }
  Result<std::vector<std::string>> UnusedSince(double used_s, int64_t limit) override {
    std::vector<std::string> unused =
        ByUse([&](const SharedMemory::Session& session) { return session.label.used_s < used_s; }, /*others=*/false);
    if (std::ssize(unused) > limit) unused.resize(static_cast<size_t>(limit));
    return unused;
  }

  int64_t incarnation_ = 0;
  std::atomic<bool> holds_lease{true}, refuses_commits{false};
  /// Called between a commit, which other servers then see, and its result. To be set while nothing is written.
  std::function<void()> before_reply;
  bool alone = false;  // the store of one server

 private:
  class Rows final : public JournalRows {
   public:
    explicit Rows(std::map<std::string, std::string> rows) : rows_(std::move(rows)), at_(rows_.end()) {}
    void Seek(std::string_view key) override { at_ = rows_.lower_bound(std::string(key)); }
    bool Valid() const override { return at_ != rows_.end(); }
    void Next() override { ++at_; }
    std::string_view key() const override { return at_->first; }
    std::string_view value() const override { return at_->second; }
    Status status() const override { return Status::Ok(); }

   private:
    const std::map<std::string, std::string> rows_;
    std::map<std::string, std::string>::const_iterator at_;
  };

  Status Apply(const RowChange& change, std::map<std::string, std::string>* rows,
               std::map<std::string, SharedMemory::Session>* sessions) {
    if (change.kind == RowChange::Kind::kRelease) {
      sessions->at(change.key).server.clear();
      return Status::Ok();
    }
    const auto key = journal_format::ParseSessionKey(change.key);
    if (key && change.key[0] == journal_format::kHeads) {
      const std::string name(key->session);
      if (alone) sessions->try_emplace(name, SharedMemory::Session{.server = server_});
      const auto at = sessions->find(name);
      if (at == sessions->end() || at->second.server != server_) return IoError("another server's session: " + name);
      at->second.reserved = false;
      if (change.label) at->second.label = *change.label;
      if (change.kind == RowChange::Kind::kDelete && key->rest == journal_format::kDataKeyRest) {
        rows->erase(change.key);
        return Status::Ok();
      }
      if (change.kind == RowChange::Kind::kDelete && key->rest == journal_format::kSummaryRest) sessions->erase(at);
    }
    switch (change.kind) {
      case RowChange::Kind::kPut:
        (*rows)[change.key] = change.value;
        break;
      case RowChange::Kind::kDelete:
        rows->erase(change.key);
        break;
      case RowChange::Kind::kDeleteRange:
        rows->erase(rows->lower_bound(change.key), rows->lower_bound(change.value));
        break;
      case RowChange::Kind::kRelease:
        break;
    }
    return Status::Ok();
  }
  std::map<std::string, SharedMemory::Session>::iterator FindLocked(const std::string& session) const {
    const auto at = store_->sessions.find(session);
    return at != store_->sessions.end() && at->second.reserved ? store_->sessions.end() : at;
  }
  std::string Row(const std::string& key) const {
    const auto at = store_->rows.find(key);
    return at == store_->rows.end() ? "" : at->second;
  }
  void AddLocked(const std::string& key, const SharedMemory::Session& session, SharedTotals* totals) const {
    totals->sample = key;
    ++(session.label.conversation ? totals->conversations : totals->chains);
    const std::string row = journal_format::HeadKey(key);
    if (const auto head = journal_format::DecodeHead(row, Row(row)))
      totals->stored_bytes += static_cast<int64_t>(head->last.bytes);
  }
  /// Least recently used first; without `others`, not those of other live servers.
  template <class Wanted>
  std::vector<std::string> ByUse(const Wanted& wanted, bool others) {
    std::lock_guard lock(store_->mutex);
    std::vector<std::pair<double, std::string>> found;
    for (const auto& [key, session] : store_->sessions) {
      const bool elsewhere = !session.server.empty() && session.server != server_ && store_->live[session.server];
      if (!session.reserved && (others || !elsewhere) && wanted(session)) found.emplace_back(session.label.used_s, key);
    }
    std::sort(found.begin(), found.end());
    std::vector<std::string> keys;
    for (auto& [used_s, key] : found) keys.push_back(std::move(key));
    return keys;
  }

  const std::shared_ptr<SharedMemory> store_;
  const std::string server_;
  const Clock& clock_;
};

}  // namespace ringside
