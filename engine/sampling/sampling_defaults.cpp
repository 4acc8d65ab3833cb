#include "engine/sampling/sampling_defaults.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <limits>

#include "engine/files/flat_json.h"
#include "engine/files/gguf_reader.h"

namespace ringside {
namespace {

constexpr double kTemperature = 0.7, kTopP = 0.9;

/// Reads parameters from `file` under its own names into `params`; a JSON null counts as absent.
template <class File, class Has>
Status Read(const File& file, const Has& has, std::string_view name, double* value) {
  if (!has(name)) return Status::Ok();
  const std::optional<double> found = file.Float(name);
  if (!found) return InvalidArgument(fmt::format("'{}' is not a number", name));
  // Restore the decimal number that the file's float32 rounds: 0.7, not 0.699999988.
  *value = std::strtod(fmt::format("{}", static_cast<float>(*found)).c_str(), nullptr);
  return Status::Ok();
}

template <class File, class Has>
Status Read(const File& file, const Has& has, std::string_view name, int64_t* value) {
  if (!has(name)) return Status::Ok();
  const std::optional<int64_t> found = file.Int(name);
  if (!found) return InvalidArgument(fmt::format("'{}' is not an integer", name));
  *value = *found;
  return Status::Ok();
}

Status ReadJson(const std::string& path, SamplingParams* params) {
  ASSIGN_OR_RETURN(const FlatJson file, FlatJson::ReadFile(path));
  const auto has = [&](std::string_view name) { return file.Has(name); };
  RETURN_IF_ERROR(Read(file, has, "temperature", &params->temperature));
  RETURN_IF_ERROR(Read(file, has, "top_p", &params->top_p));
  RETURN_IF_ERROR(Read(file, has, "top_k", &params->top_k));
  RETURN_IF_ERROR(Read(file, has, "min_p", &params->min_p));
  return Read(file, has, "repetition_penalty", &params->repetition_penalty);
}

Status ReadGguf(const std::string& path, SamplingParams* params) {
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  const auto has = [&](std::string_view name) { return file.Find(name) != nullptr; };
  RETURN_IF_ERROR(Read(file, has, "general.sampling.temp", &params->temperature));
  RETURN_IF_ERROR(Read(file, has, "general.sampling.top_p", &params->top_p));
  RETURN_IF_ERROR(Read(file, has, "general.sampling.top_k", &params->top_k));
  RETURN_IF_ERROR(Read(file, has, "general.sampling.min_p", &params->min_p));
  return Read(file, has, "general.sampling.penalty_repeat", &params->repetition_penalty);
}

}  // namespace

SamplingParams DefaultSampling() {
  SamplingParams params;
  params.temperature = kTemperature;
  params.top_p = kTopP;
  return params;
}

Result<SamplingParams> ReadSamplingDefaults(const std::string& path) {
  SamplingParams params = DefaultSampling();
  std::error_code ignored;
  std::string file = path;
  Status read;
  if (path.ends_with(".nemo")) return params;  // such an archive has no sampling defaults
  if (!std::filesystem::is_directory(path, ignored)) {
    read = ReadGguf(file, &params);
  } else if (file = path + "/generation_config.json"; std::filesystem::exists(file, ignored)) {
    read = ReadJson(file, &params);
  }
  if (read.ok()) read = params.Validate(std::numeric_limits<TokenId>::max());
  if (read.ok()) return params;
  const bool named = read.message().starts_with(file);
  return Status(read.code(), named ? read.message() : file + ": " + read.message());
}

}  // namespace ringside
