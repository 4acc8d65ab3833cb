// The supported architectures of llama.cpp's GGUF files: one row each.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/families/gguf/gguf_keys.h"
#include "engine/families/network_plan.h"

namespace ringside {

struct GgufFamily {
  std::string_view architecture;
  RopePairs pairs;
  /// Sets the family's traits; called after sizes, norm epsilon and window width (equal in all spec->layer_traits) were
  /// read, before the rotation.
  Status (*set)(const GgufKeys& keys, ModelSpec* spec);
  std::span<const TensorRule> rules = {};        // names that differ from the common ones
  std::span<const std::string_view> reads = {};  // its keys among those that other families refuse
  bool one_rope_base = false;                    // for layers with windows too, if the file has no other for them
  bool interleaved_axes = false;                 // of rotations with three positions (SetAxes)
};

/// Null if unknown.
const GgufFamily* FindGgufFamily(std::string_view architecture);
std::vector<std::string_view> GgufArchitectures();

/// Families with attention in all layers, from before 2025, and T5.
std::span<const GgufFamily> GgufPlainFamilies();
/// Those from 2025 on.
std::span<const GgufFamily> GgufRecentFamilies();
/// Those whose layers alternate between windows or chunks and full attention, with gates and mixtures.
std::span<const GgufFamily> GgufAlternatingFamilies();
/// Gemma.
std::span<const GgufFamily> GgufGemmaFamilies();
/// Those with recurrent layers.
std::span<const GgufFamily> GgufHybridFamilies();
/// Those with multi-head latent attention.
std::span<const GgufFamily> GgufLatentFamilies();

/// T5's traits and tensor names.
Status SetGgufT5(const GgufKeys& keys, ModelSpec* spec);
std::span<const TensorRule> GgufT5Rules();
/// Tensor names of all other families, except some norms.
std::vector<TensorRule> GgufRules();

/// Keeps the window, read for all layers, only in those that `slides` selects.
void KeepWindows(bool (*slides)(int64_t layer), ModelSpec* spec);
/// Keeps it by the file's list or period; without these by `period`. Full attention has the last layer of a period, or
/// with `full_first` the first.
Status ReadWindowPattern(const GgufKeys& keys, int64_t period, bool full_first, ModelSpec* spec);
/// Layers without a window are not rotated.
void RotateWindows(ModelSpec* spec);
/// A mixture's traits if its file lacks their keys.
struct MixtureDefaults {
  bool sigmoid = false, normalised = false;
};
/// Router, shared experts and leading dense layers; nothing without experts.
Status ReadGgufMixture(const GgufKeys& keys, MixtureDefaults defaults, ModelSpec* spec);
/// ModelSpec::position_scale.
Status ReadTemperature(const GgufKeys& keys, ModelSpec* spec);
/// Granite's factors.
Status ReadGraniteScales(const GgufKeys& keys, ModelSpec* spec);

/// Keys that families with mixtures read.
inline constexpr std::string_view kMixtureKeys[] = {"expert_weights_scale", "leading_dense_block_count"};
/// Granite's.
inline constexpr std::string_view kGraniteKeys[] = {"attention.scale", "logit_scale", "residual_scale",
                                                    "embedding_scale"};
inline constexpr TensorRule kNormAfterAttention[] = {
    {TensorRole::kMlpNorm, "blk.{}.post_attention_norm.weight"},
};

}  // namespace ringside
