// A few connections for look-ups by many threads. Owned by the log.
// THREAD: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "session/postgres/postgres_connection.h"

namespace ringside {

class PostgresPool {
 public:
  /// A connection on loan; returned by the destructor, which ends its transaction.
  class Loan {
   public:
    Loan(PostgresPool& pool, std::unique_ptr<PostgresConnection> connection);
    ~Loan();
    Loan(Loan&& other) noexcept = default;
    Loan& operator=(Loan&& other) = delete;
    PostgresConnection* operator->() const { return connection_.get(); }

   private:
    PostgresPool* pool_;
    std::unique_ptr<PostgresConnection> connection_;
  };

  /// `target` and `stop` outlive the pool.
  PostgresPool(const PostgresTarget& target, const StopSignal& stop, size_t connections)
      : target_(target), stop_(stop), connections_(connections) {}

  /// Waits a few seconds for a connection.
  /// ERRORS: kUnavailable (storage_failed).
  Result<Loan> Borrow();
  /// Runs the statements, which begin no transaction and may be repeated. If the connection was lost, they are repeated
  /// on another one for a few seconds.
  /// ERRORS: kUnavailable (storage_failed). The log has the reason.
  Result<PostgresReply> Run(const PostgresStatement& statement);
  /// As Run. `begin` starts a transaction, in which the loan remains.
  Result<std::pair<Loan, std::vector<PostgresReply>>> RunAll(const std::vector<PostgresStatement>& statements);

 private:
  Result<Loan> Borrow(PostgresDeadline deadline);
  void Return(std::unique_ptr<PostgresConnection> connection);

  const PostgresTarget& target_;
  const StopSignal& stop_;
  const size_t connections_;
  std::mutex mutex_;  // guards the following members
  std::condition_variable returned_;
  size_t lent_ = 0;
  std::vector<std::unique_ptr<PostgresConnection>> idle_;
};

}  // namespace ringside
