#include "base/hmac.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace ringside {
namespace {

std::string FromHex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

// RFC 4231, test case 1: keys are zero-padded, so its 20-byte key equals these 32 bytes.
TEST(Hmac, MatchesThePublishedVectors) {
  const SealKey key(std::string(20, '\x0b') + std::string(12, '\0'));
  const std::string code = FromHex("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(HmacSha256(key, "Hi There"), code);
  EXPECT_TRUE(IsHmac(key, "Hi There", code));
}

TEST(Hmac, DependsOnKeyAndData) {
  const SealKey key = SealKey::Random();
  const std::string code = HmacSha256(key, "text");
  EXPECT_TRUE(IsHmac(key, "text", code));
  EXPECT_FALSE(IsHmac(SealKey::Random(), "text", code));
  EXPECT_FALSE(IsHmac(key, "texT", code));
  EXPECT_FALSE(IsHmac(key, "text", code.substr(1)));
  EXPECT_FALSE(IsHmac(key, "text", ""));
  for (size_t i = 0; i < code.size(); ++i) {
    std::string other = code;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_FALSE(IsHmac(key, "text", other));
  }
}

}  // namespace
}  // namespace ringside
