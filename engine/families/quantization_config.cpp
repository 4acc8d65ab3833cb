#include "engine/families/quantization_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "engine/families/config_json.h"

namespace ringside {
namespace {

using Kind = PackedFormat::Kind;

constexpr std::string_view kAwqVersions[] = {"gemm", "GEMM"}, kGptqFormats[] = {"gptq", "gptq_v2"};
constexpr std::string_view kE4M3Methods[] = {"fp8", "fbgemm_fp8", "compressed-tensors"},
                           kE4M3Strategies[] = {"tensor", "channel"};

std::string In(std::string_view key) { return "quantization_config." + std::string(key); }

Status NotSupported(std::string_view key, std::string_view value, std::string_view supported) {
  return InvalidArgument(fmt::format("config.json: '{}' {} is not supported, only {}", In(key), value, supported));
}

/// A text under `key` with supported values `known`.
Status Expect(const ConfigJson& config, std::string_view key, std::span<const std::string_view> known) {
  if (!config.Has(In(key))) return Status::Ok();
  const std::string value = config.String(In(key), "");
  if (std::ranges::find(known, std::string_view(value)) != known.end()) return Status::Ok();
  return NotSupported(key, "'" + value + "'", fmt::format("{}", fmt::join(known, ", ")));
}
Status Expect(const ConfigJson& config, std::string_view key, std::string_view known) {
  return Expect(config, key, {&known, 1});
}

/// Keys common to AWQ, which has two spellings, and GPTQ.
Status ReadGroups(const ConfigJson& config, std::string_view bits_key, std::string_view group_key,
                  PackedFormat* format) {
  int64_t bits = 0, group = 0;
  RETURN_IF_ERROR(config.Need(In(bits_key), &bits));
  RETURN_IF_ERROR(config.Need(In(group_key), &group));
  if (bits != 4) return NotSupported(bits_key, fmt::format("{}", bits), "4");
  if (group != -1 && (group < 32 || group % 32 != 0 || group > (int64_t{1} << 20))) {
    return NotSupported(group_key, fmt::format("{}", group), "multiples of 32, and -1");
  }
  format->group = group == -1 ? 0 : group;
  return Status::Ok();
}

Status ReadAwq(const ConfigJson& config, PackedFormat* format) {
  format->kind = Kind::kAwq;
  const bool older = config.Has(In("w_bit"));
  RETURN_IF_ERROR(ReadGroups(config, older ? "w_bit" : "bits", older ? "q_group_size" : "group_size", format));
  RETURN_IF_ERROR(Expect(config, "version", kAwqVersions));
  RETURN_IF_ERROR(Expect(config, "backend", "autoawq"));
  return config.Optional(In("zero_point"), &format->has_zero_points);
}

Status ReadGptq(const ConfigJson& config, PackedFormat* format) {
  format->kind = Kind::kGptq;
  RETURN_IF_ERROR(ReadGroups(config, "bits", "group_size", format));
  RETURN_IF_ERROR(Expect(config, "checkpoint_format", kGptqFormats));
  RETURN_IF_ERROR(Expect(config, "pack_dtype", "int32"));
  RETURN_IF_ERROR(config.Expect(In("is_marlin_format"), false));
  RETURN_IF_ERROR(config.ExpectNone(In("dynamic")));
  format->zero_offset = config.String(In("checkpoint_format"), "gptq") == "gptq" ? 1 : 0;
  return Status::Ok();
}

/// [outputs, inputs] per scale, the second a multiple of 32.
Status ReadBlockSize(const FlatJson& json, PackedFormat* format) {
  constexpr std::string_view kKey = "weight_block_size";
  if (!json.Has(In(kKey))) return Status::Ok();
  const auto sizes = json.Ints(In(kKey));
  if (!sizes || sizes->size() != 2) {
    return InvalidArgument(fmt::format("config.json: '{}' is not a list of two numbers", In(kKey)));
  }
  const auto in_range = [](int64_t size) { return size >= 1 && size <= (int64_t{1} << 20); };
  format->block = {sizes->front(), sizes->back()};
  if (in_range(sizes->front()) && in_range(sizes->back()) && sizes->back() % 32 == 0) return Status::Ok();
  return NotSupported(kKey, fmt::format("[{}, {}]", sizes->front(), sizes->back()),
                      "positive numbers, the second a multiple of 32");
}

/// By quantization method: "compressed-tensors" describes its groups, "fp8" its block scales.
Status ReadE4M3(const FlatJson& json, const std::string& method, PackedFormat* format) {
  const ConfigJson config(json);
  format->kind = Kind::kE4M3;
  RETURN_IF_ERROR(Expect(config, "fmt", "e4m3"));
  if (method != "compressed-tensors") return ReadBlockSize(json, format);
  RETURN_IF_ERROR(Expect(config, "format", "float-quantized"));
  for (int group = 0;; ++group) {
    const std::string weights = fmt::format("config_groups.group_{}.weights", group);
    if (!config.Has(In(weights))) return Status::Ok();
    RETURN_IF_ERROR(Expect(config, weights + ".type", "float"));
    RETURN_IF_ERROR(Expect(config, weights + ".strategy", kE4M3Strategies));
  }
}

}  // namespace

Result<std::optional<PackedFormat>> ReadQuantizationConfig(const FlatJson& json) {
  const ConfigJson config(json);
  if (!config.Has("quantization_config")) return std::optional<PackedFormat>();
  PackedFormat format;
  const std::string method = config.String(In("quant_method"), "");
  if (method == "awq") {
    RETURN_IF_ERROR(ReadAwq(config, &format));
  } else if (method == "gptq") {
    RETURN_IF_ERROR(ReadGptq(config, &format));
  } else if (method == "mxfp4") {
    format.kind = Kind::kMxfp4;
  } else if (std::ranges::find(kE4M3Methods, std::string_view(method)) != std::end(kE4M3Methods)) {
    RETURN_IF_ERROR(ReadE4M3(json, method, &format));
  } else {
    return NotSupported("quant_method", "'" + method + "'",
                        fmt::format("awq, gptq, mxfp4, {}", fmt::join(kE4M3Methods, ", ")));
  }
  return std::optional(format);
}

}  // namespace ringside
