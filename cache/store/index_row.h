// What the disk tier must know of an object before it writes another one over it, as a row of bytes with a checksum.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cache/snapshot.h"

namespace ringside {

struct IndexRow {
  int64_t bytes = 0;
  double used_at = 0;            // by RocksDbStoreOptions::uptime_s; seconds since 1970 in what older versions wrote
  std::vector<ChunkHash> parts;  // ascending
};

/// The row belongs to this owner: another one's does not decode.
std::string EncodeIndex(const std::string& owner, const IndexRow& row);
/// kCorruption.
Result<IndexRow> DecodeIndex(const std::string& owner, std::string_view value);

}  // namespace ringside
