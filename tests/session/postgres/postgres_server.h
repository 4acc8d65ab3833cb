// A PostgreSQL server in a temporary folder, for the tests of this process: started with the first use, with a Unix
// socket only. THREAD: the test's.
#pragma once

#include <string>
#include <vector>

#include "session/postgres/postgres_connection.h"

namespace ringside {

class PostgresServer {
 public:
  /// The server of this process; null if PostgreSQL is not installed.
  static PostgresServer* Get();
  ~PostgresServer();

  /// Creates an empty database with a new name.
  std::string MakeDatabase();
  /// The URL of a database, of another role or another socket folder if they are given.
  std::string Url(const std::string& database, const std::string& role = "ringside",
                  const std::string& folder = "") const;
  const std::string& folder() const { return folder_; }
  /// The socket's path.
  std::string socket() const { return folder_ + "/.s.PGSQL.5432"; }

  /// Runs a statement without parameters in a database. Fails the test if the database refuses it.
  void Execute(const std::string& database, const std::string& sql);
  /// The values of a statement's only column, of type int8 or text.
  std::vector<int64_t> Numbers(const std::string& database, const std::string& sql);
  std::vector<std::string> Texts(const std::string& database, const std::string& sql);

 private:
  PostgresServer() = default;
  void Start(const std::string& programs);
  PostgresReply Ask(const std::string& database, const std::string& sql, PostgresReply::Columns columns);

  std::string folder_;
  int process_ = 0;
  int databases_ = 0;
};

}  // namespace ringside
