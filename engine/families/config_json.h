// Reads a config.json of the transformers library: values with their defaults, and the keys that most families share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/families/model_spec.h"
#include "engine/files/flat_json.h"

namespace ringside {

class ConfigJson {
 public:
  explicit ConfigJson(const FlatJson& json) : json_(json) {}

  // Null means absent throughout.
  bool Has(std::string_view key) const { return json_.Has(key); }
  std::string String(std::string_view key, std::string_view otherwise) const {
    return json_.String(key).value_or(std::string(otherwise));
  }
  Status Need(std::string_view key, int64_t* value) const;
  Status Optional(std::string_view key, int64_t* value) const { return Has(key) ? Need(key, value) : Status::Ok(); }
  Status Optional(std::string_view key, double* value) const;
  Status Optional(std::string_view key, float* value) const;
  Status Optional(std::string_view key, bool* value) const;
  /// Rejects any value but `expected`; absent counts as expected.
  Status Expect(std::string_view key, bool expected) const;
  /// Rejects any value: the trait is not supported.
  Status ExpectNone(std::string_view key) const;

 private:
  const FlatJson& json_;
};

/// The keys that most families share: layers, sizes, heads, context, tied head.
Status ReadSizes(const ConfigJson& config, ModelSpec* spec);
/// head_dim, or the hidden size divided by the heads.
Status ReadHeadDim(const ConfigJson& config, ModelSpec* spec);
/// The activation under `key`. ERRORS: kInvalidArgument, with the name, if it is not supported.
Status ReadActivation(const ConfigJson& config, std::string_view key, std::string_view otherwise, ModelSpec* spec);
/// Whether a family rotates a part of each head, given by `partial_rotary_factor` or `rotary_pct`. Other families
/// ignore these, as the transformers library does, and reject them together with rope scaling.
enum class PartialRotary { kIgnored, kRead };
/// Reads spec->rotary, unless it is set, and the network's rotation; also the windowed layers' rotation if it differs.
/// Validates the spec.
Status ReadRotations(const ConfigJson& config, ModelSpec* spec, PartialRotary partial = PartialRotary::kIgnored);
/// Sets the window of every layer that layer_types (or `slides`, if there are none) marks as windowed.
Status ReadWindows(const ConfigJson& config, bool (*slides)(int64_t layer), ModelSpec* spec);

}  // namespace ringside
