// The supported architectures of llama.cpp's GGUF files, and access to their keys.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/families/network_plan.h"

namespace ringside {

/// Keys of a file's own architecture.
class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, std::string architecture) : file_(file), architecture_(std::move(architecture)) {}

  std::string Name(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }
  bool Has(std::string_view key) const { return file_.Find(Name(key)) != nullptr; }
  std::optional<std::string> String(std::string_view key) const { return file_.String(Name(key)); }
  Status Need(std::string_view key, int64_t* value) const;
  /// One value for all layers, or an array with one each.
  Status NeedPerLayer(std::string_view key, int64_t layers, std::vector<int64_t>* values) const;
  Status Optional(std::string_view key, int64_t* value) const { return Has(key) ? Need(key, value) : Status::Ok(); }
  Status Optional(std::string_view key, double* value) const;
  Status Optional(std::string_view key, float* value) const;
  Status Optional(std::string_view key, bool* value) const;
  /// A number of each layer: a list of them, or one for all. ERRORS: kInvalidArgument, also for another number of
  /// layers.
  Status Optional(std::string_view key, int64_t layers, std::vector<int64_t>* values) const;

 private:
  const GgufFile& file_;
  std::string architecture_;
};

struct GgufFamily {
  std::string_view architecture;
  RopePairs pairs;
  /// Sets the family's traits; called after sizes, norm epsilon and window width (equal in all spec->layer_traits) were
  /// read, before the rotation.
  Status (*set)(const GgufKeys& keys, ModelSpec* spec);
  std::span<const TensorRule> rules = {};  // names that differ from the common ones
};

std::span<const GgufFamily> GgufFamilies();
/// T5's traits and tensor names.
Status SetGgufT5(const GgufKeys& keys, ModelSpec* spec);
std::span<const TensorRule> GgufT5Rules();
/// Tensor names of all other families, except some norms.
std::vector<TensorRule> GgufRules();
/// Tensor names of Gemma 4 that differ.
std::span<const TensorRule> GgufGemma4Rules();
Status SetGgufGemma4(const GgufKeys& keys, ModelSpec* spec);

}  // namespace ringside
