// HMAC-SHA256 (RFC 2104, FIPS 180-4). A checksum detects accidental damage; a MAC also detects forgery, because only a
// holder of the key can compute it. Pure functions. THREAD: any.
#pragma once

#include <string>
#include <string_view>

#include "base/sealed_box.h"

namespace ringside {

inline constexpr size_t kHmacBytes = 32;

/// The MAC, kHmacBytes long.
std::string HmacSha256(const SealKey& key, std::string_view bytes);
/// True if `code` is HmacSha256(key, bytes). Constant time in the content of `code`.
bool IsHmac(const SealKey& key, std::string_view bytes, std::string_view code);

}  // namespace ringside
