// SHA-256 (FIPS 180-4). Pure. THREAD: any.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ringside {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest Sha256(std::string_view bytes);

}  // namespace ringside
