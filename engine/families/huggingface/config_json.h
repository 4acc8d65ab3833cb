// Reads a config.json of the transformers library: values with their defaults, and the keys that most families share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "engine/families/model_spec.h"
#include "engine/files/flat_json.h"

namespace ringside {

class ConfigJson {
 public:
  /// `prefix`: of the network's keys.
  explicit ConfigJson(const FlatJson& json, std::string prefix = "") : json_(json), prefix_(std::move(prefix)) {}

  // Null means absent throughout.
  bool Has(std::string_view key) const { return json_.Has(Name(key)); }
  std::string String(std::string_view key, std::string_view otherwise) const {
    return json_.String(Name(key)).value_or(std::string(otherwise));
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
  std::string Name(std::string_view key) const { return prefix_ + std::string(key); }

  const FlatJson& json_;
  const std::string prefix_;
};

/// The keys that most families share: layers, sizes, heads, context, tied head. Sizes that are already set may be
/// absent.
Status ReadSizes(const ConfigJson& config, ModelSpec* spec);
/// head_dim, or the hidden size divided by the heads, unless it is set.
Status ReadHeadDim(const ConfigJson& config, ModelSpec* spec);
/// The activation under `key`. ERRORS: kInvalidArgument, with the name, if it is not supported.
Status ReadActivation(const ConfigJson& config, std::string_view key, std::string_view otherwise, ModelSpec* spec);
/// Whether a family rotates a part of each head, given by `partial_rotary_factor` or `rotary_pct`. Other families
/// ignore these, as the transformers library does, and reject them together with rope scaling.
enum class PartialRotary { kIgnored, kRead };
/// Values for a config.json without them; `local` is the base of windowed layers if theirs differs.
struct RotationDefaults {
  double base = 10000, local = 0, partial = 1;
};
/// Reads spec->rotary, unless it is set, and the network's rotation; also the windowed layers' rotation if it differs.
/// Validates the spec.
Status ReadRotations(const ConfigJson& config, ModelSpec* spec, PartialRotary partial = PartialRotary::kIgnored,
                     RotationDefaults defaults = {});
/// A file's name for a mixer; "mlp" and "moe" layers have none.
struct MixerName {
  std::string_view name;
  Mixer mixer;
};
/// Sets the mixer of every layer from the list under `key`, if there is one. REQUIRES: MakeLayerTraits. ERRORS:
/// kInvalidArgument if the list has an unknown name or another length than the network.
Status ReadMixers(const ConfigJson& config, std::string_view key, std::span<const MixerName> names, ModelSpec* spec);
/// Adds a rotation of `rotary` dimensions, that of the object `in` (a prefix, with its dot).
Status AddRotation(const ConfigJson& config, const std::string& in, int64_t rotary, ModelSpec* spec);
/// Sets the window of every layer that layer_types (or `slides`, if there are none) marks as windowed.
Status ReadWindows(const ConfigJson& config, bool (*slides)(int64_t layer), ModelSpec* spec);

}  // namespace ringside
