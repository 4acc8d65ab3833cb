// Rows of a statement's answer, copied, and checked against the columns that the statement is known to have: the
// database's replies are bytes from outside. Plain values.
// THREAD: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/postgres/postgres_params.h"

namespace ringside {

class PostgresReply {
 public:
  using Columns = std::vector<PostgresType>;
  using Row = std::vector<std::optional<std::string>>;

  /// Adds a row.
  /// ERRORS: kIo if its columns or their sizes are not those of `columns`.
  Status Add(const Columns& columns, Row row);

  size_t rows() const { return rows_.size(); }
  size_t bytes() const { return bytes_; }
  /// Number of rows that the statement inserted, updated or deleted.
  int64_t affected() const { return affected_; }
  void set_affected(int64_t affected) { affected_ = affected; }

  // REQUIRES: row < rows(), and the column has that type. A null is 0, false or "".
  bool IsNull(size_t row, size_t column) const { return !rows_[row][column]; }
  bool Bool(size_t row, size_t column) const { return Number(row, column) != 0; }
  int64_t Int8(size_t row, size_t column) const { return Number(row, column); }
  double Float8(size_t row, size_t column) const;
  std::string_view Bytes(size_t row, size_t column) const;
  std::string Text(size_t row, size_t column) const { return std::string(Bytes(row, column)); }
  /// The values of a text column.
  std::vector<std::string> Texts(size_t column) const;

 private:
  int64_t Number(size_t row, size_t column) const;

  std::vector<Row> rows_;
  size_t bytes_ = 0;
  int64_t affected_ = 0;
};

}  // namespace ringside
