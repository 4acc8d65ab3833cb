// Authenticated encryption at rest: AES-256-GCM. Without the key sealed bytes can be neither read nor changed. They
// open only under the name (`aad`, not stored) that they were sealed under, so they cannot be moved to another place.
// Pure functions. THREAD: any. Used by the journal and by the disk tier.
//
// Layout: nonce 12 bytes (random), ciphertext of the length of the plaintext, tag 16 bytes. With random nonces a key is
// safe for 2^32 messages; each conversation has its own key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

inline constexpr size_t kSealKeyBytes = 32;
inline constexpr size_t kSealOverheadBytes = 12 + 16;

/// A key that is wiped from memory on destruction.
class SealKey {
 public:
  /// REQUIRES: `bytes` is kSealKeyBytes long.
  explicit SealKey(std::string_view bytes);
  static SealKey Random();
  SealKey(const SealKey&) = default;
  SealKey& operator=(const SealKey&) = default;
  ~SealKey();
  std::string_view bytes() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::array<uint8_t, kSealKeyBytes> bytes_{};
};

std::string Seal(const SealKey& key, std::string_view aad, std::string_view plain);
/// The plaintext. ERRORS: kCorruption if it was not sealed with this key under this name, or was changed.
Result<std::string> OpenSealed(const SealKey& key, std::string_view aad, std::string_view sealed);
/// As OpenSealed, into `plain`, which has room for sealed.size() - kSealOverheadBytes bytes. After a failure the
/// contents of `plain` are unspecified and must not be used.
Status OpenSealedInto(const SealKey& key, std::string_view aad, std::string_view sealed, std::byte* plain);
/// A key for another purpose, from which this one cannot be computed. `purpose`: of the caller's choice.
SealKey DeriveKey(const SealKey& key, std::string_view purpose);
/// A pseudonym that reveals `name` only to holders of the key: SHA-256 of key and name.
std::array<uint8_t, 32> KeyedName(const SealKey& key, std::string_view name);

}  // namespace ringside
