// Writes the journal's batches, each exactly once, on one connection. Owned by the log.
// THREAD: any; calls wait for each other.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/sealed_box.h"
#include "session/postgres/postgres_batch.h"
#include "session/postgres/postgres_lease.h"

namespace ringside {

class PostgresWriter {
 public:
  /// The references outlive the writer. `stop` ends the waits for the database.
  PostgresWriter(const PostgresTarget& target, const StopSignal& stop, PostgresLease& lease,
                 const std::optional<SealKey>& master)
      : target_(target), stop_(stop), lease_(lease), master_(master) {}

  /// As JournalLog::Commit. Blocks until the database is back.
  /// ERRORS: kIo: the lease was taken, a session is not this server's, or the database refuses the batch for good;
  /// kUnavailable: stopped.
  Status Commit(const std::vector<RowChange>& changes);
  /// As SharedLog::Reserve.
  Result<std::vector<std::string>> Reserve(const std::vector<std::string>& sessions);

 private:
  enum class Outcome { kWritten, kNotWritten };
  /// The outcome of batch `number`, read in a way that also waits for the standby.
  Result<Outcome> Resolve(int64_t number);
  /// Opens the connection if there is none. Repeats until the database is back.
  Status Connect();
  /// Waits before another attempt. ERRORS: kUnavailable: stopped.
  Status Pause(const Status& failed);

  const PostgresTarget& target_;
  const StopSignal& stop_;
  PostgresLease& lease_;
  const std::optional<SealKey> master_;
  std::mutex mutex_;  // guards the following members
  std::unique_ptr<PostgresConnection> connection_;
  int64_t batch_ = 0;  // last one written
  bool failing_ = false;
};

}  // namespace ringside
