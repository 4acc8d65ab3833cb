// In place of the other sources, in a build without PostgreSQL.
#include "session/postgres/postgres_log.h"

namespace ringside {

Result<std::unique_ptr<JournalLog>> OpenPostgresLog(const SharedStoreOptions& /*options*/,
                                                    const std::optional<SealKey>& /*master*/,
                                                    const std::vector<RowChange>& /*initial*/) {
  return Unavailable("journal: this program was built without PostgreSQL (RINGSIDE_POSTGRES): it has no shared store");
}

}  // namespace ringside
