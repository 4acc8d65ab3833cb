// The journal's rows in a folder: a RocksDB instance in `<path>/log`, opened and written such that no acknowledged
// write is lost silently. Only rocksdb_log.cpp of this layer uses RocksDB.
#pragma once

#include <memory>
#include <vector>

#include "session/journal/journal_log.h"

namespace ringside {

/// Opens the log, or creates one with the `initial` rows, which every existing log has.
/// ERRORS: as Journal::Open, except the schema, which the caller checks.
Result<std::unique_ptr<JournalLog>> OpenRocksDbLog(const JournalOptions& options,
                                                   const std::vector<RowChange>& initial);

}  // namespace ringside
