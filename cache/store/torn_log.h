// Repairs the ends of RocksDB's logs (WAL and manifest) after a power loss. A write in flight may be there in part,
// with zeros or old bytes in place of the rest. RocksDB accepts a log that just ends but refuses one with such an end
// as damaged, as it must refuse damage in the middle. This code distinguishes the two: no record can follow a torn
// write, because every write is synced before the next. Stateless; call before opening the database.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ringside {

/// Truncates a torn write off the newest log file in `folder` and off the manifest, synced. True if there was one.
/// False, and nothing changes, if no log has a torn end, if whole records follow the damage, or if the remaining log
/// would not reach the change numbered `known`. ERRORS: kIo.
Result<bool> TruncateTornTail(const std::string& folder, uint64_t known);

}  // namespace ringside
