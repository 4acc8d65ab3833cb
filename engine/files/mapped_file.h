// A whole file mapped read-only. Shared by the readers and the tensors that borrow from it; immutable. THREAD: any.
// REQUIRES: the file is not truncated while it is mapped; readers map only while a model loads.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace ringside {

class MappedFile {
 public:
  /// Maps the file at `path`. ERRORS: kNotFound if there is none; kIo, with path and reason, if it cannot be opened or
  /// mapped or is not a regular file; kInvalidArgument, saying what to do, for a Git LFS pointer or a web page.
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// The file's bytes; empty for an empty file.
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace ringside
