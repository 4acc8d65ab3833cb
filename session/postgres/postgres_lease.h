// This server's identity in a shared store: its row with an incarnation, and the lease on it, by the database's clock.
// One thread renews the lease, advances the store's uptime, ends the leases of servers that have vanished, and receives
// requests to release sessions. Described in session/postgres/POSTGRES.md. Owned by the log.
// THREAD: any.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "session/postgres/postgres_connection.h"

namespace ringside {

class PostgresLease {
 public:
  struct Options {
    std::string server;
    double lease_s;
    std::optional<int64_t> predecessor;  // incarnation of a process of this server that has ended
    const Clock* clock;
  };

  /// Registers the server, and waits once for the end of another process's lease on its name; not for the
  /// predecessor's. `target` outlives it. ERRORS: kBusy: another process renews that lease; kUnavailable.
  static Result<std::unique_ptr<PostgresLease>> Register(const PostgresTarget& target, const StopSignal& stop,
                                                         const Options& options);
  /// Ends the lease in order, so that every session is free at once.
  ~PostgresLease();
  PostgresLease(const PostgresLease&) = delete;
  PostgresLease& operator=(const PostgresLease&) = delete;

  const std::string& server() const { return options_.server; }
  int64_t incarnation() const { return incarnation_; }
  /// As SharedLog.
  bool Holds() const { return !fenced_ && options_.clock->MonotonicNs() < ends_ns_; }
  bool fenced() const { return fenced_; }
  /// Records that the database has another incarnation of this server.
  Status Fence();
  int64_t UptimeMs() const;
  void OnAskedFor(std::function<void(const std::string& session)> asked);

  /// Ends the lease of `incarnation` of a server if its time is over, which frees its sessions.
  PostgresStatement TakeOver(const std::string& server, int64_t incarnation) const;
  /// Condition on a server `o`: another server may take over. `cell` is any name that the statement does not use.
  static constexpr std::string_view kEnded = "(o.alive_until < now() and now() > (select c.grace_until from cell c))";

 private:
  PostgresLease(const PostgresTarget& target, const Options& options);
  Status TryRegister(PostgresConnection& connection);
  void Run();
  Status Connect();
  Status Beat(PostgresConnection& connection);
  Status Sweep();
  void Deliver();
  PostgresDeadline Deadline() const { return std::chrono::steady_clock::now() + patience_; }

  const PostgresTarget& target_;
  const Options options_;
  const std::chrono::milliseconds beat_, patience_;
  StopSignal ending_;
  int64_t incarnation_ = 0;  // 0 = not registered
  std::atomic<bool> fenced_{false};
  std::atomic<int64_t> ends_ns_{0};
  std::unique_ptr<PostgresConnection> connection_;  // the thread's
  mutable std::mutex mutex_;                        // guards the uptime
  mutable int64_t uptime_ms_ = 0;                   // last value returned
  int64_t noted_uptime_ms_ = 0, noted_ns_ = 0;
  std::mutex asked_mutex_;  // guards asked_, and is held during its calls
  std::function<void(const std::string&)> asked_;
  std::thread thread_;
};

}  // namespace ringside
