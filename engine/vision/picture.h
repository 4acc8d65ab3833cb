// A decoded picture: RGB bytes, and the digest of the file it was decoded from, which is its identity. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace ringside {

struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;          // [height, width, 3]
  std::array<uint8_t, 32> digest{};  // SHA-256 of the encoded file
};

}  // namespace ringside
