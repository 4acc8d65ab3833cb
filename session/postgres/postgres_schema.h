// The tables of a shared store, and their versions. Described in session/postgres/POSTGRES.md.
#pragma once

#include <vector>

#include "session/journal/journal_log.h"
#include "session/postgres/postgres_connection.h"

namespace ringside {

/// Version that this server reads and writes.
inline constexpr int64_t kPostgresSchema = 1;

/// Creates the tables, with the `initial` rows, or brings them to this server's version. One server of many does so at
/// a time; others wait.
/// ERRORS: kMismatch: the tables have a newer version, are another application's, or must be created or changed by a
/// role with more rights; kUnavailable.
Status MigratePostgres(PostgresConnection& connection, const std::vector<RowChange>& initial);

}  // namespace ringside
