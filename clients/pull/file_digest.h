// Digests of downloaded files, as model servers publish them. THREAD: one per object.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ringside::client {

struct ExpectedDigest {
  enum class Kind {
    kNone,
    kSha256,
    kGitBlob,  // SHA-1 of a header with the size, and the content: small files of a repository
  };
  Kind kind = Kind::kNone;
  std::string hex;  // lower case
};

/// Computes a digest from the pieces of a file.
class FileDigest {
 public:
  /// `size` of the whole file; used by kGitBlob only.
  FileDigest(ExpectedDigest::Kind kind, uint64_t size);
  ~FileDigest();
  FileDigest(FileDigest&&) noexcept;
  FileDigest& operator=(FileDigest&&) noexcept;

  void Update(std::string_view piece);
  /// In lower case; "" for kNone. Called once.
  std::string Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringside::client
