// Bytes at rest under a key: AES-256-GCM. What is sealed can be neither read nor changed without the key, and only be
// opened under the very name (`aad`, not stored) that it was sealed under, so that it cannot be moved to another place.
// Pure functions; any thread. Used by the journal and by the disk tier.
//
// A sealed text is: nonce 12 bytes (random), ciphertext as long as the plain text, tag 16 bytes. With random nonces a
// key is good for 2^32 texts; there is one key for each conversation.
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

/// A key that is wiped from memory when it goes.
class SealKey {
 public:
  /// `bytes`: kSealKeyBytes.
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
/// The plain text; kCorruption: not sealed with this key under this name, or changed since.
Result<std::string> OpenSealed(const SealKey& key, std::string_view aad, std::string_view sealed);
/// The same, into `plain`, which has room for sealed.size() - kSealOverheadBytes. What is there after a failure is no
/// plain text.
Status OpenSealedInto(const SealKey& key, std::string_view aad, std::string_view sealed, std::byte* plain);
/// A name for something that shall not be recognised by it without the key: SHA-256 of key and name.
std::array<uint8_t, 32> KeyedName(const SealKey& key, std::string_view name);

}  // namespace ringside
