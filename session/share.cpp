#include "session/share.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/hex.h"
#include "base/hmac.h"
#include "session/ids.h"
#include "session/records.h"

namespace ringside {
namespace {

constexpr size_t kSecretDigits = 64;

/// A constant: it separates these digests from all others. The secret itself has 256 random bits.
const SealKey& DigestKey() {
  static const SealKey key("ringside share link digest, v. 1");
  return key;
}

}  // namespace

std::optional<ShareToken> ParseShareToken(std::string_view text) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  ShareToken token{std::string(text.substr(0, dot)), std::string(text.substr(dot + 1))};
  const bool digits =
      std::ranges::all_of(token.secret, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (!IsId("conv_", token.session) || token.secret.size() != kSecretDigits || !digits) return std::nullopt;
  return token;
}

std::string MakeShareSecret() { return HexText(SealKey::Random().bytes()); }

std::string DigestShareSecret(std::string_view secret) { return HmacSha256(DigestKey(), secret); }

bool OpensShare(const std::vector<Share>& shares, std::string_view secret, double now) {
  bool opens = false;
  for (const Share& share : shares) {
    if (IsHmac(DigestKey(), secret, share.digest) && !share.expired(now)) opens = true;
  }
  return opens;
}

JournalRecord EncodeShared(const Share& share) {
  ByteWriter out;
  out.String(share.id);
  out.String(share.digest);
  out.Double(share.created_at);
  out.Double(share.expires_at);
  return {static_cast<uint8_t>(RecordType::kShared), out.Take()};
}

Result<Share> DecodeShared(std::string_view bytes) {
  ByteReader in(bytes);
  Share share{.id = in.String(), .digest = in.String(), .created_at = in.Double(), .expires_at = in.Double()};
  if (!in.done() || share.digest.size() != kHmacBytes) return Corruption("session: a damaged record: shared");
  return share;
}

}  // namespace ringside
