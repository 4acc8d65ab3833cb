#include "clients/pull/file_digest.h"

#include <openssl/evp.h>

namespace ringside::client {

struct FileDigest::State {
  EVP_MD_CTX* context = nullptr;  // null for kNone
  ~State() { EVP_MD_CTX_free(context); }
};

FileDigest::FileDigest(ExpectedDigest::Kind kind, uint64_t size) : state_(std::make_unique<State>()) {
  if (kind == ExpectedDigest::Kind::kNone) return;
  state_->context = EVP_MD_CTX_new();
  EVP_DigestInit_ex(state_->context, kind == ExpectedDigest::Kind::kSha256 ? EVP_sha256() : EVP_sha1(), nullptr);
  if (kind != ExpectedDigest::Kind::kGitBlob) return;
  const std::string header = "blob " + std::to_string(size);
  Update({header.c_str(), header.size() + 1});  // with the terminating zero
}
FileDigest::~FileDigest() = default;
FileDigest::FileDigest(FileDigest&&) noexcept = default;
FileDigest& FileDigest::operator=(FileDigest&&) noexcept = default;

void FileDigest::Update(std::string_view piece) {
  if (state_->context != nullptr) EVP_DigestUpdate(state_->context, piece.data(), piece.size());
}

std::string FileDigest::Finish() {
  constexpr char kDigits[] = "0123456789abcdef";
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int count = 0;
  if (state_->context != nullptr) EVP_DigestFinal_ex(state_->context, bytes, &count);
  std::string hex;
  for (unsigned int i = 0; i < count; ++i) hex += {kDigits[bytes[i] >> 4], kDigits[bytes[i] & 15]};
  return hex;
}

}  // namespace ringside::client
