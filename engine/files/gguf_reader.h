// GGUF v2 and v3 files (the format of llama.cpp and GGML), memory-mapped, hostile input: every offset, count and length
// is checked before use. Immutable after Open. THREAD: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "engine/files/file_tensor.h"

namespace ringside {

class MappedFile;

using GgufValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>>;

class GgufFile {
 public:
  /// Opens a file, or a split model by any of its parts (gguf_parts.cpp). ERRORS: kNotFound or kIo if a file cannot be
  /// read; kCorruption, with reason and place, for a malformed file; kInvalidArgument, with the name, for an
  /// unsupported version, byte order or tensor type.
  static Result<GgufFile> Open(const std::string& path);

  const GgufValue* Find(std::string_view key) const;
  std::optional<std::string> String(std::string_view key) const;
  std::optional<int64_t> Int(std::string_view key) const;   // any integer type, or a bool
  std::optional<double> Float(std::string_view key) const;  // any number
  std::optional<bool> Bool(std::string_view key) const;
  const std::vector<std::string>* Strings(std::string_view key) const;
  std::optional<std::vector<int64_t>> Ints(std::string_view key) const;
  std::optional<std::vector<double>> Floats(std::string_view key) const;

  const std::vector<FileTensor>& tensors() const { return tensors_; }

 private:
  static Result<GgufFile> OpenOne(const std::string& path);
  // Adds the tensors of the model's next part. REQUIRES: this is the first part.
  Status Join(GgufFile part, const std::string& path);

  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, GgufValue, std::less<>> values_;
  std::vector<FileTensor> tensors_;
};

}  // namespace ringside
