// Share links: a link lets its holder read one conversation without a key until it expires or is revoked. Only a digest
// of a link's secret is stored, so that a copy of the store opens nothing. Plain values and pure functions. THREAD:
// any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/journal/journal.h"

namespace ringside {

inline constexpr int64_t kMaxSharesPerConversation = 16;

struct Share {
  std::string id;         // "share_...", to list and revoke it
  std::string digest;     // of its secret
  double created_at = 0;  // seconds since 1970
  double expires_at = 0;  // as well; 0 = never

  bool expired(double now) const { return expires_at > 0 && expires_at <= now; }
};

/// The contents of a link: the conversation, and 256 random bits in hexadecimal.
struct ShareToken {
  std::string session, secret;

  /// "conv_....SECRET".
  std::string Text() const { return session + "." + secret; }
};
/// nullopt for any text that ShareToken::Text cannot have written.
std::optional<ShareToken> ParseShareToken(std::string_view text);

/// A new secret from the kernel's random numbers.
std::string MakeShareSecret();
std::string DigestShareSecret(std::string_view secret);
/// True if `secret` opens one of the shares that have not expired. Compares in constant time.
bool OpensShare(const std::vector<Share>& shares, std::string_view secret, double now);

JournalRecord EncodeShared(const Share& share);
/// ERRORS: kCorruption.
Result<Share> DecodeShared(std::string_view bytes);

}  // namespace ringside
