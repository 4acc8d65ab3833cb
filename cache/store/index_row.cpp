#include "cache/store/index_row.h"

#define XXH_STATIC_LINKING_ONLY  // declares XXH3
#include <xxhash.h>

#include <algorithm>

namespace ringside {
namespace {

void PutNumber(std::string& out, uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(number >> shift));
}
uint64_t GetNumber(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 8; i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

}  // namespace

std::string EncodeIndex(const std::string& owner, const IndexRow& row) {
  std::string out;
  PutNumber(out, static_cast<uint64_t>(row.bytes));
  PutNumber(out, static_cast<uint64_t>(std::max(0.0, row.used_at)));
  for (const ChunkHash& part : row.parts) {
    PutNumber(out, part.high);
    PutNumber(out, part.low);
  }
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, owner.data(), owner.size());
  XXH3_64bits_update(&state, out.data(), out.size());
  PutNumber(out, XXH3_64bits_digest(&state));
  return out;
}

Result<IndexRow> DecodeIndex(const std::string& owner, std::string_view value) {
  if (value.size() < 24 || value.size() % 16 != 8) return Corruption("disk tier: damaged index");
  IndexRow row;
  row.bytes = static_cast<int64_t>(GetNumber(value));
  row.used_at = static_cast<double>(GetNumber(value.substr(8)));
  for (size_t at = 16; at + 16 < value.size(); at += 16) {
    row.parts.push_back({GetNumber(value.substr(at)), GetNumber(value.substr(at + 8))});
  }
  if (row.bytes < 0 || EncodeIndex(owner, row) != value) return Corruption("disk tier: damaged index");
  return row;
}

}  // namespace ringside
