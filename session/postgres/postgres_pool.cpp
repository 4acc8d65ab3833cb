#include "session/postgres/postgres_pool.h"

#include <utility>

#include "base/log.h"

namespace ringside {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookUpPatience{5'000};
constexpr milliseconds kStatementTimeout{10'000};
constexpr milliseconds kPoolPause{100};  // before another attempt

}  // namespace

PostgresPool::Loan::Loan(PostgresPool& pool, std::unique_ptr<PostgresConnection> connection)
    : pool_(&pool), connection_(std::move(connection)) {}
PostgresPool::Loan::~Loan() {
  if (connection_ != nullptr) pool_->Return(std::move(connection_));
}

Result<PostgresPool::Loan> PostgresPool::Borrow() { return Borrow(std::chrono::steady_clock::now() + kLookUpPatience); }

Result<PostgresPool::Loan> PostgresPool::Borrow(PostgresDeadline deadline) {
  {
    std::unique_lock lock(mutex_);
    if (!returned_.wait_until(lock, deadline, [this] { return lent_ < connections_; })) return DatabaseUnavailable();
    ++lent_;
    if (!idle_.empty()) {
      std::unique_ptr<PostgresConnection> connection = std::move(idle_.back());
      idle_.pop_back();
      return Loan(*this, std::move(connection));
    }
  }
  auto opened = PostgresConnection::Open(target_, stop_, kStatementTimeout, deadline);
  if (opened.ok()) return Loan(*this, std::move(*opened));
  Return(nullptr);
  return opened.status();
}

void PostgresPool::Return(std::unique_ptr<PostgresConnection> connection) {
  if (connection != nullptr && connection->usable() && connection->in_transaction()) {
    const auto deadline = std::chrono::steady_clock::now() + kLookUpPatience;
    if (!connection->Run({.sql = "rollback"}, deadline).ok()) connection = nullptr;
  }
  std::lock_guard lock(mutex_);
  --lent_;
  if (connection != nullptr && connection->usable()) {
    idle_.push_back(std::move(connection));
  } else {
    idle_.clear();  // as old as the lost one
  }
  returned_.notify_one();
}

Result<PostgresReply> PostgresPool::Run(const PostgresStatement& statement) {
  auto ran = RunAll({statement});
  if (!ran.ok()) return ran.status();
  return std::move(ran->second[0]);
}

Result<std::pair<PostgresPool::Loan, std::vector<PostgresReply>>> PostgresPool::RunAll(
    const std::vector<PostgresStatement>& statements) {
  const auto deadline = std::chrono::steady_clock::now() + kLookUpPatience;
  for (bool first = true;; first = false) {
    Status failed;
    {
      Result<Loan> loan = Borrow(deadline);
      failed = loan.status();
      if (loan.ok()) {
        auto replies = (*loan)->RunAll(statements, deadline);
        if (replies.ok()) return std::pair(std::move(*loan), std::move(*replies));
        failed = replies.status();
      }
    }
    const bool again = failed.code() == StatusCode::kUnavailable && std::chrono::steady_clock::now() < deadline;
    if (again && (first || stop_.Sleep(kPoolPause))) continue;  // an idle connection may be an old one
    LogError("{}", failed.message());
    return DatabaseUnavailable();
  }
}

}  // namespace ringside
