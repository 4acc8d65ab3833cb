// The tables of a shared store as the journal's rows, in key order, in a snapshot: a read-only transaction that starts
// with the first Seek. Rows are fetched in pages. Unlike the rows of a folder, an iteration ends with its region, and
// in the region of records with its session. THREAD: one at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "session/journal/journal_log.h"
#include "session/postgres/postgres_pool.h"

namespace ringside {

class PostgresRows final : public JournalRows {
 public:
  explicit PostgresRows(PostgresPool& pool) : pool_(pool) {}

  void Seek(std::string_view key) override;
  bool Valid() const override { return status_.ok() && at_ < rows_.size(); }
  void Next() override;
  std::string_view key() const override { return rows_[at_].first; }
  std::string_view value() const override { return rows_[at_].second; }
  Status status() const override { return status_; }

 private:
  /// Replaces the page by the rows from `key` on.
  Status Fetch(std::string_view key);
  Status FetchSettings();
  Status FetchSessions(std::string_view key);
  Status FetchRecords(std::string_view session, int64_t first);
  Result<PostgresReply> Run(PostgresStatement statement);

  PostgresPool& pool_;
  std::optional<PostgresPool::Loan> loan_;  // once the transaction has started
  std::vector<std::pair<std::string, std::string>> rows_;
  size_t at_ = 0;
  std::string next_;  // first key after the page; "" = none
  size_t pages_ = 0;  // fetched one after the other
  Status status_;
};

}  // namespace ringside
