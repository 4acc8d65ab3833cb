// A commit's row changes by table: the columns of one session become one update. Plain values; views into the changes.
// THREAD: any.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sealed_box.h"
#include "session/journal/journal_log.h"
#include "session/postgres/postgres_connection.h"

namespace ringside {

class PostgresBatch {
 public:
  /// `master` hides the owners' names (session/postgres/postgres_names.h); null = stored as they are.
  /// ERRORS: kInvalidArgument: a change that the journal does not make.
  static Result<PostgresBatch> Of(const std::vector<RowChange>& changes, const std::optional<SealKey>& master);

  bool empty() const { return sessions_.empty() && settings_.empty(); }
  /// The statement that commits it as batch `number` of the server; its only row has the number of updated server rows
  /// and 1. The outcomes are described in session/postgres/POSTGRES.md.
  PostgresStatement Statement(const std::string& server, int64_t incarnation, int64_t number) const;

 private:
  struct Record {
    std::string_view session;
    int64_t seq;
    std::string_view value;
  };
  struct Session {
    std::optional<std::string_view> head, summary, data_key;
    std::optional<std::string> owner;
    std::optional<int64_t> seq, stored_bytes;  // of the head, if it is intact
    const SessionLabel* label = nullptr;
    bool released = false, deleted = false;
  };

  Status Add(const RowChange& change, const std::optional<SealKey>& master);
  Status AddPut(const RowChange& change, const std::optional<SealKey>& master);
  Status AddDelete(const RowChange& change);

  std::map<std::string_view, Session> sessions_;  // ordered, so that all servers lock rows in one order
  std::vector<Record> records_;
  std::vector<std::pair<std::string_view, std::string_view>> settings_;
};

}  // namespace ringside
