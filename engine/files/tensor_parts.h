// The tensors of a safetensors file by name, from which the parts of packed matrices are taken (packed_tensors.h).
// Borrowed from the file. THREAD: any.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/files/file_tensor.h"
#include "engine/files/packed_tensors.h"
#include "engine/files/safetensors_reader.h"

namespace ringside {

class TensorParts {
 public:
  explicit TensorParts(const SafeTensors& file);

  /// Tensors of types that we do not compute with directly.
  const std::map<std::string_view, const OtherTensor*>& others() const { return others_; }
  bool Has(std::string_view name) const { return others_.contains(name); }
  /// Whether there are floats of this name, and a single one.
  bool IsOneNumber(std::string_view name) const;
  /// ERRORS: kCorruption unless `name` has `dimensions` dimensions. REQUIRES: Has(name).
  Result<std::vector<int64_t>> Shape(const std::string& name, size_t dimensions) const;

  /// Takes a part of a type in others(). ERRORS: kCorruption if it is missing or misshapen; kInvalidArgument for
  /// another type.
  Status Take(const std::string& name, std::string_view type, const std::vector<int64_t>& shape,
              std::span<const std::byte>* bytes);
  /// Takes float16 values. ERRORS: as Take.
  Status TakeHalves(const std::string& name, const std::vector<int64_t>& shape, std::span<const std::byte>* bytes);
  /// Takes a float part. ERRORS: kCorruption if it is missing.
  Result<const FileTensor*> TakeFloats(const std::string& name);
  /// Drops unused parts.
  void RemoveBySuffix(std::span<const std::string_view> suffixes);

  /// Adds a matrix. ERRORS: kCorruption if the file has another tensor of its name.
  Status Add(FileTensor joined);
  /// The matrices, then the tensors that are left.
  JoinedTensors Finish();

 private:
  std::map<std::string_view, const FileTensor*> floats_;
  std::map<std::string_view, const OtherTensor*> others_;
  std::vector<FileTensor> joined_;
  std::set<std::string> joined_names_;
};

/// Shapes in messages: "[2, 3]".
std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace ringside
