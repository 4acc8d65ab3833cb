// The index row of a stored object: what a Put must know of the old object before it replaces it. Checksummed.
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
  double used_at = 0;  // on the clock RocksDbStoreOptions::uptime_s; seconds since 1970 in rows of older versions
  std::vector<ChunkHash> parts;  // ascending
};

/// The checksum covers the owner: a row does not decode for another owner.
std::string EncodeIndex(const std::string& owner, const IndexRow& row);
/// ERRORS: kCorruption.
Result<IndexRow> DecodeIndex(const std::string& owner, std::string_view value);

}  // namespace ringside
