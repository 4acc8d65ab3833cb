// What a log adds that several servers share: which server may write a session, and look-ups over the sessions of all
// servers. A session belongs to at most one server; a commit with rows of another server's session fails as a whole, as
// does every commit of a server whose lease was taken. Blocks on the database for at most some seconds.
// THREAD: any, except where stated.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringside {

/// Where a session is.
struct SessionPlace {
  std::string server;       // that may write it; "" = none, or one whose lease has ended
  bool mine = false;        // that is this one
  bool live = false;        // its lease has not ended
  int64_t incarnation = 0;  // of that server's process; 0 = none
  friend bool operator==(const SessionPlace&, const SessionPlace&) = default;
};

/// A session's rows as stored; session/journal/journal_format.h.
struct SharedRow {
  std::string session;
  std::string head, summary, key;  // "" = absent
};

/// Sums over an owner's sessions.
struct SharedTotals {
  std::string sample;  // key of any such session; its summary has the owner's name
  int64_t conversations = 0, chains = 0;
  int64_t stored_bytes = 0;
};

class SharedLog {
 public:
  virtual ~SharedLog() = default;

  /// This server's name in the store.
  virtual const std::string& server() const = 0;
  /// Number of this process; no other process of any server has it.
  virtual int64_t incarnation() const = 0;

  // Ownership. ERRORS of all: kUnavailable (storage_failed): the database does not answer; kIo: the lease was taken.
  /// Makes the session this server's until it is released. Takes over the sessions of servers whose lease has ended.
  /// ERRORS: kNotFound; kBusy (conversation_locked): a live server has it.
  virtual Status Claim(const std::string& session) = 0;
  /// Asks the server that has the session to release it. Returns before that.
  virtual Status AskFor(const std::string& session) = 0;
  /// Calls `asked` on the log's thread with each session of this server that another one asks for; null ends that,
  /// after the current call. `asked` must not block.
  virtual void OnAskedFor(std::function<void(const std::string& session)> asked) = 0;
  /// Reserves the names of new sessions for this server. Returns those that exist. May block until the database is
  /// back. THREAD: the journal's.
  virtual Result<std::vector<std::string>> Reserve(const std::vector<std::string>& sessions) = 0;
  /// True while no other server can have taken this server's lease, by the steady clock.
  virtual bool HoldsLease() const = 0;
  /// True once another server has taken it.
  virtual bool Fenced() const = 0;
  /// Milliseconds that any server of this store has run; see Journal::UptimeSeconds. Does not block.
  virtual int64_t UptimeMs() const = 0;

  // Look-ups; `owner` is a name as in SessionLabel. ERRORS of all: kUnavailable (storage_failed).
  /// `owner`: absent = any. ERRORS: kNotFound: no such session of this owner.
  virtual Result<SessionPlace> Find(const std::string& session, const std::optional<std::string>& owner) = 0;
  /// Those of `sessions` that exist and belong to the owner.
  virtual Result<std::vector<std::string>> Existing(const std::string& owner,
                                                    const std::vector<std::string>& sessions) = 0;
  /// The owner's conversations, newest first, after `after` ("" = from the start).
  /// ERRORS: kNotFound for `after`.
  virtual Result<std::vector<SharedRow>> List(const std::string& owner, const std::string& after, int64_t limit) = 0;
  virtual Result<SharedTotals> Totals(const std::string& owner) = 0;
  virtual Result<std::vector<SharedTotals>> AllTotals() = 0;
  /// The owner's least recently used chains, without the `keep` most recently used; none of another live server.
  virtual Result<std::vector<std::string>> OldChains(const std::string& owner, int64_t keep, int64_t limit) = 0;
  /// Sessions of all owners last used before `used_s` by UptimeMs; none of another live server.
  virtual Result<std::vector<std::string>> UnusedSince(double used_s, int64_t limit) = 0;
};

}  // namespace ringside
