// Look-ups and claims over the sessions of all servers of a store, for worker threads. Owned by the log. The calls are
// described in session/journal/shared_log.h.
// THREAD: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/sealed_box.h"
#include "session/journal/shared_log.h"
#include "session/postgres/postgres_lease.h"
#include "session/postgres/postgres_pool.h"

namespace ringside {

class PostgresLookups {
 public:
  /// The references outlive it.
  PostgresLookups(PostgresPool& pool, PostgresLease& lease, const std::optional<SealKey>& master)
      : pool_(pool), lease_(lease), master_(master) {}

  Status Claim(const std::string& session);
  Status AskFor(const std::string& session);
  Result<SessionPlace> Find(const std::string& session, const std::optional<std::string>& owner);
  Result<std::vector<std::string>> Existing(const std::string& owner, const std::vector<std::string>& sessions);
  Result<std::vector<SharedRow>> List(const std::string& owner, const std::string& after, int64_t limit);
  Result<SharedTotals> Totals(const std::string& owner);
  Result<std::vector<SharedTotals>> AllTotals();
  Result<std::vector<std::string>> OldChains(const std::string& owner, int64_t keep, int64_t limit);
  Result<std::vector<std::string>> UnusedSince(double used_s, int64_t limit);

 private:
  /// Claims a session that is free. False: it is not, or does not exist.
  Result<bool> TryClaim(const std::string& session);
  /// The reason why a session was not claimed; ends its server's lease if its time is over. Ok: try again.
  Status MakeFree(const std::string& session);

  PostgresPool& pool_;
  PostgresLease& lease_;
  const std::optional<SealKey> master_;
};

}  // namespace ringside
