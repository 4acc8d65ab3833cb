// The architectures of llama.cpp's GGUF files that we know, and reading their keys.
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
  Status Optional(std::string_view key, int64_t* value) const { return Has(key) ? Need(key, value) : Status::Ok(); }
  Status Optional(std::string_view key, double* value) const;
  Status Optional(std::string_view key, float* value) const;
  Status Optional(std::string_view key, bool* value) const;

 private:
  const GgufFile& file_;
  std::string architecture_;
};

struct GgufFamily {
  std::string_view architecture;
  RopePairs pairs;
  /// What sets the family apart, after sizes, norm epsilon and windows' width (spec->layer_traits all alike) were read,
  /// before the rotation.
  Status (*set)(const GgufKeys& keys, ModelSpec* spec);
};

std::span<const GgufFamily> GgufFamilies();
/// T5's, and what its tensors are called.
Status SetGgufT5(const GgufKeys& keys, ModelSpec* spec);
std::span<const TensorRule> GgufT5Rules();
/// What the tensors of all others are called, but for the norms of some.
std::vector<TensorRule> GgufRules();

}  // namespace ringside
