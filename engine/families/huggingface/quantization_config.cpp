#include "engine/families/huggingface/quantization_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/families/huggingface/compressed_config.h"
#include "engine/families/huggingface/config_json.h"

namespace ringside {
namespace {

using Kind = PackedFormat::Kind;

constexpr std::string_view kAwqVersions[] = {"gemm", "GEMM"}, kGptqFormats[] = {"gptq", "gptq_v2"};
constexpr int64_t kNvfp4Group = 16;

/// A text under `key` with supported values `known`.
Status Expect(const ConfigJson& config, std::string_view key, std::span<const std::string_view> known) {
  if (!config.Has(QuantizationKey(key))) return Status::Ok();
  const std::string value = config.String(QuantizationKey(key), "");
  if (std::ranges::find(known, std::string_view(value)) != known.end()) return Status::Ok();
  return UnsupportedQuantization(key, "'" + value + "'", fmt::format("{}", fmt::join(known, ", ")));
}
Status Expect(const ConfigJson& config, std::string_view key, std::string_view known) {
  return Expect(config, key, {&known, 1});
}

/// Keys common to AWQ, which has two spellings, and GPTQ.
Status ReadGroups(const ConfigJson& config, std::string_view bits_key, std::string_view group_key,
                  PackedFormat* format) {
  int64_t bits = 0;
  RETURN_IF_ERROR(config.Need(QuantizationKey(bits_key), &bits));
  if (bits != 4) return UnsupportedQuantization(bits_key, fmt::format("{}", bits), "4");
  return ReadGroupSize(config, group_key, &format->group);
}

Status ReadAwq(const ConfigJson& config, PackedFormat* format) {
  format->kind = Kind::kAwq;
  const bool older = config.Has(QuantizationKey("w_bit"));
  RETURN_IF_ERROR(ReadGroups(config, older ? "w_bit" : "bits", older ? "q_group_size" : "group_size", format));
  RETURN_IF_ERROR(Expect(config, "version", kAwqVersions));
  RETURN_IF_ERROR(Expect(config, "backend", "autoawq"));
  return config.Optional(QuantizationKey("zero_point"), &format->has_zero_points);
}

Status ReadGptq(const ConfigJson& config, PackedFormat* format) {
  format->kind = Kind::kGptq;
  RETURN_IF_ERROR(ReadGroups(config, "bits", "group_size", format));
  RETURN_IF_ERROR(Expect(config, "checkpoint_format", kGptqFormats));
  RETURN_IF_ERROR(Expect(config, "pack_dtype", "int32"));
  RETURN_IF_ERROR(config.Expect(QuantizationKey("is_marlin_format"), false));
  RETURN_IF_ERROR(config.ExpectNone(QuantizationKey("dynamic")));
  format->zero_offset = config.String(QuantizationKey("checkpoint_format"), "gptq") == "gptq" ? 1 : 0;
  return Status::Ok();
}

/// Scales per output or matrix, or, with weight_block_size, per block.
Status ReadE4M3(const FlatJson& json, PackedFormat* format) {
  const ConfigJson config(json);
  format->kind = Kind::kE4M3;
  RETURN_IF_ERROR(Expect(config, "fmt", "e4m3"));
  if (!config.Has(QuantizationKey("weight_block_size"))) return Status::Ok();
  return ReadScaleBlock(json, "weight_block_size", &format->block.emplace());
}

/// Without groups, E4M3 is recognised by its tensors.
Status ReadCompressedTensors(const FlatJson& json, PackedFormat* format) {
  RETURN_IF_ERROR(ReadCompressed(json, format));
  if (!format->groups.empty()) return Status::Ok();
  RETURN_IF_ERROR(Expect(ConfigJson(json), "format", "float-quantized"));
  return ReadE4M3(json, format);
}

/// ModelOpt's algorithm under `key`.
Status ReadModelOpt(const ConfigJson& config, std::string_view key, std::string_view group_key, PackedFormat* format) {
  const std::string algorithm = config.String(key, "");
  if (algorithm != "FP8" && algorithm != "NVFP4") {
    return InvalidArgument(fmt::format("ModelOpt's '{}' '{}' is not supported, only FP8 and NVFP4", key, algorithm));
  }
  format->kind = algorithm == "FP8" ? Kind::kE4M3 : Kind::kNvfp4;
  int64_t group = kNvfp4Group;
  RETURN_IF_ERROR(config.Optional(group_key, &group));
  if (algorithm == "FP8" || group == kNvfp4Group) return Status::Ok();
  return InvalidArgument(fmt::format("ModelOpt's '{}' {} is not supported, only {}", group_key, group, kNvfp4Group));
}

using MethodReader = Status (*)(const FlatJson& json, PackedFormat* format);
constexpr std::pair<std::string_view, MethodReader> kMethods[] = {
    {"awq", [](const FlatJson& json, PackedFormat* format) { return ReadAwq(ConfigJson(json), format); }},
    {"gptq", [](const FlatJson& json, PackedFormat* format) { return ReadGptq(ConfigJson(json), format); }},
    {"mxfp4", [](const FlatJson&, PackedFormat*) { return Status::Ok(); }},
    {"fp8", ReadE4M3},
    {"fbgemm_fp8", ReadE4M3},
    {"compressed-tensors", ReadCompressedTensors},
    {"modelopt", [](const FlatJson& json, PackedFormat* format) {
       return ReadModelOpt(ConfigJson(json), QuantizationKey("quant_algo"), QuantizationKey("group_size"), format);
     }}};

}  // namespace

Result<std::optional<PackedFormat>> ReadQuantizationConfig(const FlatJson& json) {
  const ConfigJson config(json);
  if (!config.Has("quantization_config")) return std::optional<PackedFormat>();
  const std::string method = config.String(QuantizationKey("quant_method"), "");
  const auto* known = std::ranges::find(kMethods, std::string_view(method), [](const auto& row) { return row.first; });
  PackedFormat format;
  if (known == std::end(kMethods)) {
    std::vector<std::string_view> names;
    for (const auto& [name, reader] : kMethods) names.push_back(name);
    return UnsupportedQuantization("quant_method", "'" + method + "'", fmt::format("{}", fmt::join(names, ", ")));
  }
  RETURN_IF_ERROR(known->second(json, &format));
  return std::optional(std::move(format));
}

Result<PackedFormat> ReadModelOptConfig(const FlatJson& json) {
  PackedFormat format;
  RETURN_IF_ERROR(ReadModelOpt(ConfigJson(json), "quantization.quant_algo", "quantization.group_size", &format));
  return format;
}

}  // namespace ringside
