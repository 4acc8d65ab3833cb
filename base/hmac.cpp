#include "base/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/check.h"

namespace ringside {

std::string HmacSha256(const SealKey& key, std::string_view bytes) {
  std::string code(kHmacBytes, '\0');
  unsigned int size = 0;
  CHECK(HMAC(EVP_sha256(), key.bytes().data(), static_cast<int>(key.bytes().size()),
             reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
             reinterpret_cast<unsigned char*>(code.data()), &size) != nullptr);
  CHECK_EQ(size, kHmacBytes);
  return code;
}

bool IsHmac(const SealKey& key, std::string_view bytes, std::string_view code) {
  return code.size() == kHmacBytes && CRYPTO_memcmp(HmacSha256(key, bytes).data(), code.data(), kHmacBytes) == 0;
}

}  // namespace ringside
