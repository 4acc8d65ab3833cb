// A new file, written sequentially. THREAD: one.
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
  /// ERRORS: kIo if it cannot be created, or exists.
  static Result<OutputFile> Create(const std::string& path);

  Status Write(std::span<const std::byte> bytes);
  Status Write(std::string_view text) { return Write(std::as_bytes(std::span(text))); }
  /// Pads with zeros to the next multiple.
  Status Align(size_t multiple);
  /// ERRORS: kIo if not all bytes could be written.
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

/// Writes a whole file.
Status WriteFile(const std::string& path, std::string_view text);

}  // namespace ringside
