#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace ringside {

Sha256Digest Sha256(std::string_view bytes) {
  Sha256Digest digest;
  unsigned int size = 0;
  CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
  CHECK_EQ(size, digest.size());
  return digest;
}

}  // namespace ringside
