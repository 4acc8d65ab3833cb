// A code that only who has the key can have made for some bytes: HMAC-SHA256 (RFC 2104, FIPS 180-4). Where a checksum
// tells accidents, this tells intent. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/sealed_box.h"

namespace ringside {

inline constexpr size_t kHmacBytes = 32;

/// kHmacBytes.
std::string HmacSha256(const SealKey& key, std::string_view bytes);
/// True if `code` is HmacSha256(key, bytes). Takes as long for a wrong code as for the right one.
bool IsHmac(const SealKey& key, std::string_view bytes, std::string_view code);

}  // namespace ringside
