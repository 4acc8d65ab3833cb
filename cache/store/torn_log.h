// The end of RocksDB's logs (of rows, and its manifest) after a loss of power. A write that was on its way may be there
// in part, with zeros or old bytes for the rest. RocksDB takes a log that just ends for sound, but refuses one with
// such an end as damaged, as it must refuse damage in the middle. Here the two are told apart: behind a torn write
// nothing was ever written, because every write is synced before the next. Functions without state; for whoever is
// about to open a database.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ringside {

/// Cuts a torn write off the newest log file in `folder` and off the manifest, synced. True if there was one; false,
/// and nothing changed, if no log has such an end, if whole records follow the damage, or if the rows left in the log
/// would not reach the change with the number `known`. kIo.
Result<bool> CutTornEnd(const std::string& folder, uint64_t known);

}  // namespace ringside
