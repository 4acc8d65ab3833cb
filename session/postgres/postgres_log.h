// The journal's rows in a PostgreSQL database that several servers share (session/journal/shared_log.h). Tables,
// statements and guarantees are described in session/postgres/POSTGRES.md. Only this folder uses libpq.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/sealed_box.h"
#include "session/journal/journal_log.h"

namespace ringside {

struct SharedStoreOptions {
  std::string url;     // postgresql://user:password@host:port,host:port/database?sslmode=verify-full, as libpq reads it
  std::string server;  // this server's name in the store: 1 to 64 of [A-Za-z0-9._-]; no other server has it
  double lease_s = 10;                      // a server that has not renewed its lease for this time loses its sessions
  size_t connections = 4;                   // for look-ups; three more are used
  std::optional<int64_t> predecessor = {};  // incarnation of this server's last process, which has ended
  std::stop_token stop = {};                // once requested, no call waits for a database that is away
  const Clock* clock = &SystemClock::Instance();  // outlives the log
};

/// Opens the store, creates its tables if there are none, with the `initial` rows, and registers this server. `master`
/// hides the owners' names. For JournalOptions::open_log. Blocks for up to the time of a lease, if another process than
/// the predecessor has this server's.
/// ERRORS: kBusy: another process is this server; kMismatch: the tables are of another version or application, or
/// cannot be created; kInvalidArgument: the options; kUnavailable: the database does not answer, or this program was
/// built without PostgreSQL.
Result<std::unique_ptr<JournalLog>> OpenPostgresLog(const SharedStoreOptions& options,
                                                    const std::optional<SealKey>& master,
                                                    const std::vector<RowChange>& initial);

}  // namespace ringside
