// A file that is written from begin to end, for the first time. One thread.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ringside {

class OutputFile {
 public:
  /// kIo if it cannot be made, or is there.
  static Result<OutputFile> Create(const std::string& path);

  Status Write(std::span<const std::byte> bytes);
  Status Write(std::string_view text) { return Write(std::as_bytes(std::span(text))); }
  /// Zeros up to the next multiple.
  Status Align(size_t multiple);
  /// kIo where not all of it came to the disk's file.
  Status Close();

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  Status Failed() const;

  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
  size_t written_ = 0;
};

/// A whole file of so many bytes.
Status WriteFile(const std::string& path, std::string_view text);

}  // namespace ringside
