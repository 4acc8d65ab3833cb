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

std::string In(std::string_view key) { return "quantization_config." + std::string(key); }

Status NotSupported(std::string_view key, std::string_view value, std::string_view supported) {
  return InvalidArgument(fmt::format("config.json: '{}' {} is not supported, only {}", In(key), value, supported));
}

/// A text under `key`, of which we know some.
Status Expect(const ConfigJson& config, std::string_view key, std::span<const std::string_view> known) {
  if (!config.Has(In(key))) return Status::Ok();
  const std::string value = config.String(In(key), "");
  if (std::ranges::find(known, std::string_view(value)) != known.end()) return Status::Ok();
  return NotSupported(key, "'" + value + "'", fmt::format("{}", fmt::join(known, ", ")));
}
Status Expect(const ConfigJson& config, std::string_view key, std::string_view known) {
  return Expect(config, key, {&known, 1});
}

/// What AWQ and GPTQ spell alike, the former in two ways.
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
    const std::string model = config.String("model_type", "");
    if (model != "gpt_oss") return NotSupported("quant_method", "'mxfp4' of " + model, "that of gpt_oss");
  } else {
    return NotSupported("quant_method", "'" + method + "'", "awq, gptq, mxfp4");
  }
  return std::optional(format);
}

}  // namespace ringside
