#include "base/sealed_box.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "base/defect.h"
#include "base/sha256.h"

namespace ringside {
namespace {

constexpr size_t kNonceBytes = 12, kTagBytes = 16;

using Context = std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)>;

Context NewContext() {
  Context context(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  CHECK(context != nullptr);
  return context;
}

int Size(size_t bytes) {
  CHECK(bytes <= static_cast<size_t>(std::numeric_limits<int>::max()));
  return static_cast<int>(bytes);
}
const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

Status AuthenticationFailed() { return Corruption("decryption failed: wrong key or name, or modified data"); }

}  // namespace

SealKey::SealKey(std::string_view bytes) {
  CHECK_EQ(bytes.size(), kSealKeyBytes);
  std::copy(bytes.begin(), bytes.end(), bytes_.begin());
}
SealKey SealKey::Random() {
  std::array<char, kSealKeyBytes> bytes;
  CHECK_EQ(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), Size(bytes.size())), 1);
  SealKey key(std::string_view(bytes.data(), bytes.size()));
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return key;
}
SealKey::~SealKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

std::string Seal(const SealKey& key, std::string_view aad, std::string_view plain) {
  std::string out(kNonceBytes + plain.size() + kTagBytes, '\0');
  auto* nonce = reinterpret_cast<unsigned char*>(out.data());
  CHECK_EQ(RAND_bytes(nonce, Size(kNonceBytes)), 1);
  if (RINGSIDE_DEFECT("sealed_name_ignored")) aad = {};
  const Context context = NewContext();
  int written = 0;
  CHECK_EQ(EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, Bytes(key.bytes()), nonce), 1);
  CHECK_EQ(EVP_EncryptUpdate(context.get(), nullptr, &written, Bytes(aad), Size(aad.size())), 1);
  unsigned char* cipher = nonce + kNonceBytes;
  CHECK_EQ(EVP_EncryptUpdate(context.get(), cipher, &written, Bytes(plain), Size(plain.size())), 1);
  CHECK_EQ(EVP_EncryptFinal_ex(context.get(), cipher + plain.size(), &written), 1);
  CHECK_EQ(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, Size(kTagBytes), cipher + plain.size()), 1);
  return out;
}

Status OpenSealedInto(const SealKey& key, std::string_view aad, std::string_view sealed, std::byte* plain) {
  if (sealed.size() < kSealOverheadBytes) return AuthenticationFailed();
  const size_t bytes = sealed.size() - kSealOverheadBytes;
  const std::string_view nonce = sealed.substr(0, kNonceBytes), cipher = sealed.substr(kNonceBytes, bytes);
  std::string tag(sealed.substr(kNonceBytes + bytes));
  if (RINGSIDE_DEFECT("sealed_name_ignored")) aad = {};
  const Context context = NewContext();
  int written = 0;
  CHECK_EQ(EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, Bytes(key.bytes()), Bytes(nonce)), 1);
  CHECK_EQ(EVP_DecryptUpdate(context.get(), nullptr, &written, Bytes(aad), Size(aad.size())), 1);
  unsigned char nowhere;
  auto* out = bytes == 0 ? &nowhere : reinterpret_cast<unsigned char*>(plain);
  CHECK_EQ(EVP_DecryptUpdate(context.get(), out, &written, Bytes(cipher), Size(bytes)), 1);
  CHECK_EQ(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, Size(kTagBytes), tag.data()), 1);
  if (EVP_DecryptFinal_ex(context.get(), out + bytes, &written) != 1) return AuthenticationFailed();
  return Status::Ok();
}

Result<std::string> OpenSealed(const SealKey& key, std::string_view aad, std::string_view sealed) {
  if (sealed.size() < kSealOverheadBytes) return AuthenticationFailed();
  std::string plain(sealed.size() - kSealOverheadBytes, '\0');
  RETURN_IF_ERROR(OpenSealedInto(key, aad, sealed, reinterpret_cast<std::byte*>(plain.data())));
  return plain;
}

std::array<uint8_t, 32> KeyedName(const SealKey& key, std::string_view name) {
  std::string text(key.bytes());
  text.append(name);
  const Sha256Digest out = Sha256(text);
  OPENSSL_cleanse(text.data(), text.size());
  return out;
}

SealKey DeriveKey(const SealKey& key, std::string_view purpose) {
  const auto name = KeyedName(key, purpose);
  return SealKey({reinterpret_cast<const char*>(name.data()), name.size()});
}

}  // namespace ringside
