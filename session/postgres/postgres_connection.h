// A connection to PostgreSQL through libpq's asynchronous interface: every wait has a deadline. Statements are sent
// together and answered together (libpq's pipeline mode); each text is prepared once per connection.
// THREAD: one at a time.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "session/postgres/postgres_params.h"
#include "session/postgres/postgres_reply.h"
#include "session/postgres/postgres_target.h"
#include "session/postgres/stop_signal.h"

struct pg_conn;
struct pg_result;

namespace ringside {

using PostgresDeadline = std::chrono::steady_clock::time_point;

/// kUnavailable (storage_failed) with a sentence for clients; details belong in the log.
Status DatabaseUnavailable();

struct PostgresStatement {
  std::string_view sql;  // outlives the call
  PostgresParams params = {};
  PostgresReply::Columns columns = {};  // of its rows
  bool prepared = true;                 // false: used once
};

class PostgresConnection {
 public:
  /// Connects to the first host that accepts writes. `stop` ends every wait; it outlives the connection.
  /// ERRORS: kUnavailable (storage_failed), with the last host's reason.
  static Result<std::unique_ptr<PostgresConnection>> Open(const PostgresTarget& target, const StopSignal& stop,
                                                          std::chrono::milliseconds statement_timeout,
                                                          PostgresDeadline deadline);
  ~PostgresConnection();
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  /// Runs the statements in one transaction, unless they begin or end one, in one round trip.
  /// ERRORS: kUnavailable (storage_failed): the connection was lost, and the outcome is unknown; kIo: the database
  /// refused a statement, which had no effect: see sqlstate(), or its reply was not as expected.
  Result<std::vector<PostgresReply>> RunAll(const std::vector<PostgresStatement>& statements,
                                            PostgresDeadline deadline);
  Result<PostgresReply> Run(const PostgresStatement& statement, PostgresDeadline deadline);

  /// True within a transaction, or after one that was not ended.
  bool in_transaction() const;
  /// False once the connection was lost.
  bool usable() const { return usable_; }
  /// PostgreSQL's code of the last failure; "" = the connection was lost.
  const std::string& sqlstate() const { return sqlstate_; }
  /// True if the last statements were committed here only, because the wait for the standby was cancelled.
  bool unreplicated() const { return unreplicated_; }

  /// Waits for notifications until the deadline or a stop. False: the connection was lost.
  bool WaitForNotifications(PostgresDeadline deadline);
  /// Payloads of the notifications received.
  std::vector<std::string> TakeNotifications();

 private:
  explicit PostgresConnection(const StopSignal& stop) : stop_(stop) {}
  Status Connect(const PostgresTarget::Settings& settings, PostgresDeadline deadline);
  Status Prepare(std::chrono::milliseconds statement_timeout, PostgresDeadline deadline);
  /// Sends the statements and a sync. `prepares`: for each statement the text that is prepared before it, or "".
  bool Send(const std::vector<PostgresStatement>& statements, std::vector<std::string>* prepares);
  /// Reads one command's answer, whose rows are added to `reply` (null: none are expected).
  Status Receive(const PostgresReply::Columns& columns, PostgresReply* reply, PostgresDeadline deadline);
  Status Accept(const pg_result& result, const PostgresReply::Columns& columns, PostgresReply* reply);
  /// Waits until an answer can be read.
  Status Await(PostgresDeadline deadline);
  /// Waits for one of the events of poll(). False at the deadline or a stop.
  bool Poll(short events, PostgresDeadline deadline) const;
  void CollectNotifications();
  Status Lost(std::string_view why);

  const StopSignal& stop_;
  std::unique_ptr<pg_conn, void (*)(pg_conn*)> connection_{nullptr, nullptr};
  bool usable_ = true, unreplicated_ = false;
  std::string sqlstate_;
  std::unordered_set<std::string> prepared_;  // texts of the prepared statements
  std::vector<std::string> notifications_;
};

}  // namespace ringside
