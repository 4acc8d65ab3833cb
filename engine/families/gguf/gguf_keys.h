// Access to the keys and tensors of a GGUF file's own architecture.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/files/gguf_reader.h"

namespace ringside {

class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, std::string architecture) : file_(file), architecture_(std::move(architecture)) {}

  std::string Name(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }
  bool Has(std::string_view key) const { return file_.Find(Name(key)) != nullptr; }
  bool HasList(std::string_view key) const { return file_.Ints(Name(key)).has_value(); }  // of integers
  std::optional<std::vector<int64_t>> Ints(std::string_view key) const { return file_.Ints(Name(key)); }
  std::optional<std::string> String(std::string_view key) const { return file_.String(Name(key)); }
  Status Need(std::string_view key, int64_t* value) const;
  /// One value for all layers, or an array with one each.
  Status NeedPerLayer(std::string_view key, int64_t layers, std::vector<int64_t>* values) const;
  Status Optional(std::string_view key, int64_t* value) const { return Has(key) ? Need(key, value) : Status::Ok(); }
  Status Optional(std::string_view key, double* value) const;
  Status Optional(std::string_view key, float* value) const;
  Status Optional(std::string_view key, bool* value) const;
  /// A number of each layer: a list, or one for all. ERRORS: kInvalidArgument, also for another number of layers.
  Status Optional(std::string_view key, int64_t layers, std::vector<int64_t>* values) const;
  Status Optional(std::string_view key, int64_t layers, std::vector<double>* values) const;

  /// Null if the file has no such tensor.
  const FileTensor* Tensor(std::string_view name) const;
  bool HasTensor(std::string_view name) const { return Tensor(name) != nullptr; }

 private:
  Status CheckCount(std::string_view key, size_t count, int64_t layers) const;

  const GgufFile& file_;
  std::string architecture_;
};

}  // namespace ringside
