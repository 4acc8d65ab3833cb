#include "engine/families/huggingface/config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "engine/families/rope_scaling.h"

namespace ringside {
namespace {

// LongRoPE: the long factors if the trained context exceeds the original one (Ding et al. 2024).
Status ReadLongRope(const ConfigJson& config, const std::string& in, const ModelSpec& spec, RopeScaling* scaling) {
  scaling->kind = RopeScaling::Kind::kFactors;
  const auto trained = static_cast<double>(spec.trained_context);
  if (!config.Has(in + "factor")) scaling->factor = trained / scaling->original_context;
  const bool longer = trained > scaling->original_context;
  for (int64_t j = 0; j < spec.rotary / 2; ++j) {
    double factor = 0;  // rejected later if missing
    RETURN_IF_ERROR(config.Optional(fmt::format("{}{}_factor.{}", in, longer ? "long" : "short", j), &factor));
    scaling->factors.push_back(factor);
  }
  RETURN_IF_ERROR(config.Optional(in + "attention_factor", &scaling->magnitude));
  RETURN_IF_ERROR(config.Optional(in + (longer ? "long_mscale" : "short_mscale"), &scaling->magnitude));
  if (scaling->magnitude == 0 && scaling->factor > 1 && scaling->original_context > 1) {
    scaling->magnitude = std::sqrt(1 + std::log(scaling->factor) / std::log(scaling->original_context));
  }
  return Status::Ok();
}

// The rotation's magnitude as a quotient of two (DeepSeek-AI 2024). `mscale_all_dim` also scales DeepSeek's scores; the
// families read here do not do that.
Status ReadMagnitudes(const ConfigJson& config, const std::string& in, RopeScaling* scaling) {
  double part = 0, all = 0;
  RETURN_IF_ERROR(config.Optional(in + "mscale", &part));
  RETURN_IF_ERROR(config.Optional(in + "mscale_all_dim", &all));
  if (part == 0 || all == 0 || scaling->magnitude != 0 || !(scaling->factor > 1)) return Status::Ok();
  const auto magnitude = [&](double scale) { return 0.1 * scale * std::log(scaling->factor) + 1; };
  scaling->magnitude = magnitude(part) / magnitude(all);
  return Status::Ok();
}

Status ReadScaling(const ConfigJson& config, const std::string& in, const std::string& type, const ModelSpec& spec,
                   RopeScaling* scaling) {
  RETURN_IF_ERROR(config.Optional(in + "factor", &scaling->factor));
  scaling->original_context = static_cast<double>(spec.trained_context);
  RETURN_IF_ERROR(config.Optional("original_max_position_embeddings", &scaling->original_context));
  RETURN_IF_ERROR(config.Optional(in + "original_max_position_embeddings", &scaling->original_context));
  if (type == "longrope" || type == "su") return ReadLongRope(config, in, spec, scaling);
  if (type == "proportional") {
    double rotated = 1;
    RETURN_IF_ERROR(config.Optional(in + "partial_rotary_factor", &rotated));
    if (!(rotated > 0 && rotated <= 1)) {
      return InvalidArgument(fmt::format("config.json: '{}partial_rotary_factor' is {}", in, rotated));
    }
    scaling->kind = RopeScaling::Kind::kPartial;
    scaling->rotated_pairs = static_cast<int64_t>(rotated * static_cast<double>(spec.rotary)) / 2;
    return Status::Ok();
  }
  if (!config.Has(in + "factor")) {
    if (type != "yarn") return InvalidArgument(fmt::format("config.json: '{}factor' is missing", in));
    scaling->factor = static_cast<double>(spec.trained_context) / scaling->original_context;
  }
  if (type == "linear") {
    scaling->kind = RopeScaling::Kind::kLinear;
  } else if (type == "llama3") {
    scaling->kind = RopeScaling::Kind::kLlama3;
    RETURN_IF_ERROR(config.Optional(in + "low_freq_factor", &scaling->low_freq_factor));
    RETURN_IF_ERROR(config.Optional(in + "high_freq_factor", &scaling->high_freq_factor));
  } else if (type == "yarn") {
    scaling->kind = RopeScaling::Kind::kYarn;
    RETURN_IF_ERROR(config.Optional(in + "beta_fast", &scaling->beta_fast));
    RETURN_IF_ERROR(config.Optional(in + "beta_slow", &scaling->beta_slow));
    RETURN_IF_ERROR(config.Optional(in + "attention_factor", &scaling->magnitude));
    RETURN_IF_ERROR(config.Optional(in + "truncate", &scaling->truncate));
    RETURN_IF_ERROR(ReadMagnitudes(config, in, scaling));
  } else if (type == "dynamic" && config.Has(in + "alpha")) {
    // Hunyuan: a base that is larger by a fixed factor (NTK-aware scaling).
    double alpha = 1;
    RETURN_IF_ERROR(config.Optional(in + "alpha", &alpha));
    RETURN_IF_ERROR(CheckPositive("rope alpha", alpha));
    if (spec.rotary < 4) return InvalidArgument(fmt::format("rope alpha with {} rotated dimensions", spec.rotary));
    const auto rotary = static_cast<double>(spec.rotary);
    scaling->base *= std::pow(alpha, rotary / (rotary - 2));
  } else {
    return InvalidArgument(fmt::format("rope scaling '{}' is not supported", type));
  }
  return Status::Ok();
}

Status ReadAxes(const ConfigJson& config, const std::string& in, Rotation* rotation) {
  std::vector<int64_t> sections(3);
  for (size_t axis = 0; axis < 3; ++axis) {
    RETURN_IF_ERROR(config.Optional(fmt::format("{}mrope_section.{}", in, axis), &sections[axis]));
  }
  bool interleaved = false;
  RETURN_IF_ERROR(config.Optional(in + "mrope_interleaved", &interleaved));
  SetAxes(sections, interleaved, rotation);
  return Status::Ok();
}

// The rotation described by the object `in`, or by the base alone without one.
Status ReadRotation(const ConfigJson& config, const std::string& in, double base, ModelSpec* spec) {
  RopeScaling scaling;
  scaling.base = base;
  RETURN_IF_ERROR(config.Optional(in + "rope_theta", &scaling.base));
  std::string type = "default";
  for (const char* key : {"rope_type", "type"}) {
    if (!config.Has(in + key)) continue;
    type = config.String(in + key, "");
    if (type.empty()) return InvalidArgument(fmt::format("config.json: '{}{}' is not a string", in, key));
    break;
  }
  if (type == "mrope") type = "default";
  if (type != "default") RETURN_IF_ERROR(ReadScaling(config, in, type, *spec, &scaling));
  ASSIGN_OR_RETURN(Rotation rotation, MakeRotation(scaling, spec->rotary));
  RETURN_IF_ERROR(ReadAxes(config, in, &rotation));
  spec->rotations.push_back(std::move(rotation));
  spec->scaled_context = std::max(spec->scaled_context, ScaledContext(scaling));
  return Status::Ok();
}

}  // namespace

Status ConfigJson::Need(std::string_view key, int64_t* value) const {
  const auto found = json_.Int(Name(key));
  if (!found) return InvalidArgument(fmt::format("config.json: '{}' is missing or not an integer", Name(key)));
  *value = *found;
  return Status::Ok();
}

Status ConfigJson::Optional(std::string_view key, double* value) const {
  if (!Has(key)) return Status::Ok();
  const auto found = json_.Float(Name(key));
  if (!found) return InvalidArgument(fmt::format("config.json: '{}' is not a number", Name(key)));
  *value = *found;
  return Status::Ok();
}

Status ConfigJson::Optional(std::string_view key, float* value) const {
  double wide = *value;
  RETURN_IF_ERROR(Optional(key, &wide));
  *value = static_cast<float>(wide);
  return Status::Ok();
}

Status ConfigJson::Optional(std::string_view key, bool* value) const {
  if (!Has(key)) return Status::Ok();
  const auto found = json_.Bool(Name(key));
  if (!found) return InvalidArgument(fmt::format("config.json: '{}' is neither true nor false", Name(key)));
  *value = *found;
  return Status::Ok();
}

Status ConfigJson::Expect(std::string_view key, bool expected) const {
  bool value = expected;
  RETURN_IF_ERROR(Optional(key, &value));
  if (value == expected) return Status::Ok();
  return InvalidArgument(fmt::format("config.json: '{}' = {} is not supported", Name(key), value));
}

Status ConfigJson::ExpectNone(std::string_view key) const {
  return Has(key) ? InvalidArgument(fmt::format("config.json: '{}' is not supported", Name(key))) : Status::Ok();
}

Status ReadSizes(const ConfigJson& config, ModelSpec* spec) {
  const std::pair<const char*, int64_t*> sizes[] = {{"num_hidden_layers", &spec->layers},
                                                    {"hidden_size", &spec->hidden},
                                                    {"num_attention_heads", &spec->heads},
                                                    {"vocab_size", &spec->vocab},
                                                    {"max_position_embeddings", &spec->trained_context}};
  for (const auto& [key, size] : sizes) {
    RETURN_IF_ERROR(*size != 0 ? config.Optional(key, size) : config.Need(key, size));
  }
  if (!config.Has("intermediate_size.0")) RETURN_IF_ERROR(config.Optional("intermediate_size", &spec->ffn));
  if (spec->kv_heads == 0) spec->kv_heads = spec->heads;
  RETURN_IF_ERROR(config.Optional("num_key_value_heads", &spec->kv_heads));
  RETURN_IF_ERROR(config.Optional("tie_word_embeddings", &spec->tied_head));
  return ReadHeadDim(config, spec);
}

Status ReadHeadDim(const ConfigJson& config, ModelSpec* spec) {
  if (config.Has("head_dim") || spec->head_dim != 0) return config.Optional("head_dim", &spec->head_dim);
  if (spec->heads < 1 || spec->hidden % spec->heads != 0) {
    return InvalidArgument(
        fmt::format("the model's hidden size {} is not a multiple of its {} heads", spec->hidden, spec->heads));
  }
  spec->head_dim = spec->hidden / spec->heads;
  return Status::Ok();
}

Status ReadActivation(const ConfigJson& config, std::string_view key, std::string_view otherwise, ModelSpec* spec) {
  const std::string name = config.Has(key) ? config.String(key, "") : std::string(otherwise);
  static constexpr std::pair<std::string_view, Activation> kNames[] = {
      {"gelu", Activation::kGeluErf},      {"gelu_fast", Activation::kGeluTanh},
      {"gelu_new", Activation::kGeluTanh}, {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"relu", Activation::kRelu},         {"relu2", Activation::kReluSquared},
      {"silu", Activation::kSilu},         {"swish", Activation::kSilu},
      {"xielu", Activation::kXielu},
  };
  const auto* known = std::ranges::find(kNames, name, &std::pair<std::string_view, Activation>::first);
  if (known == std::end(kNames)) {
    return InvalidArgument(fmt::format("config.json: '{}' '{}' is not supported", key, name));
  }
  spec->activation = known->second;
  return Status::Ok();
}

// Newer files have an object "rope_parameters", possibly with another rotation for windows; older ones have
// "rope_theta" and "rope_scaling", and "rope_local_base_freq" for windows.
Status ReadRotations(const ConfigJson& config, ModelSpec* spec, PartialRotary reads, RotationDefaults defaults) {
  const bool joint = config.Has("rope_parameters"), each = config.Has("rope_parameters.full_attention");
  const std::string in = each ? "rope_parameters.full_attention." : joint ? "rope_parameters." : "rope_scaling.";
  double base = defaults.base, partial = defaults.partial, local = joint ? 0 : defaults.local;
  RETURN_IF_ERROR(config.Optional("rope_theta", &base));
  for (const std::string& key :
       {std::string("rotary_pct"), std::string("partial_rotary_factor"), in + "partial_rotary_factor"}) {
    RETURN_IF_ERROR(config.Optional(key, &partial));
  }
  if (!(partial > 0 && partial <= 1)) {
    return InvalidArgument(
        fmt::format("config.json: 'partial_rotary_factor' is {}; it must be above 0 and at most 1", partial));
  }
  if (reads == PartialRotary::kIgnored) {
    const std::string type = config.String(in + "rope_type", config.String(in + "type", "default"));
    if (partial != 1 && type != "default") {
      return InvalidArgument(
          fmt::format("config.json: 'partial_rotary_factor' {} is not supported with rope_type '{}'", partial, type));
    }
    partial = 1;
  }
  if (spec->rotary == 0) {
    const int64_t head_dim = std::clamp<int64_t>(spec->head_dim, 0, 1 << 20);  // ValidateSpec rejects the rest
    spec->rotary = static_cast<int64_t>(static_cast<double>(head_dim) * partial);
  }
  RETURN_IF_ERROR(ValidateSpec(*spec));
  if (!joint && config.Has("rope_scaling") && !config.Has("rope_scaling.rope_type") &&
      !config.Has("rope_scaling.type")) {
    return InvalidArgument("config.json: 'rope_scaling' has no 'rope_type'");
  }
  RETURN_IF_ERROR(ReadRotation(config, in, base, spec));
  RETURN_IF_ERROR(config.Optional("rope_local_base_freq", &local));
  if (!each && local == 0) return Status::Ok();
  RETURN_IF_ERROR(ReadRotation(config, "rope_parameters.sliding_attention.", local != 0 ? local : base, spec));
  for (LayerTraits& layer : spec->layer_traits) layer.rotation = layer.window > 0 ? 1 : 0;
  return Status::Ok();
}

Status ReadMixers(const ConfigJson& config, std::string_view key, std::span<const MixerName> names, ModelSpec* spec) {
  if (!config.Has(key)) return Status::Ok();
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    const std::string name = config.String(fmt::format("{}.{}", key, layer), "");
    const auto known = std::ranges::find(names, name, &MixerName::name);
    if (known == names.end()) {
      return InvalidArgument(
          fmt::format("config.json: '{}' of layer {} is '{}', which is not supported", key, layer, name));
    }
    spec->layer_traits[static_cast<size_t>(layer)].mixer = known->mixer;
  }
  if (!config.Has(fmt::format("{}.{}", key, spec->layers))) return Status::Ok();
  return InvalidArgument(fmt::format("config.json: '{}' has more than {} layers", key, spec->layers));
}

Status AddRotation(const ConfigJson& config, const std::string& in, int64_t rotary, ModelSpec* spec) {
  const int64_t before = std::exchange(spec->rotary, rotary);
  const Status status = ReadRotation(config, in, 10000, spec);
  spec->rotary = before;
  return status;
}

Status ReadWindows(const ConfigJson& config, bool (*slides)(int64_t layer), ModelSpec* spec) {
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  int64_t window = 0;
  RETURN_IF_ERROR(config.Optional("sliding_window", &window));
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    bool here = slides(layer);
    if (config.Has("layer_types")) {
      const std::string type = config.String(fmt::format("layer_types.{}", layer), "");
      here = type == "sliding_attention";
      if (!here && type != "full_attention") {
        return InvalidArgument(
            fmt::format("config.json: 'layer_types' of layer {} is '{}', which is not supported", layer, type));
      }
    }
    if (here) spec->layer_traits[static_cast<size_t>(layer)].window = window;
  }
  return Status::Ok();
}

}  // namespace ringside
