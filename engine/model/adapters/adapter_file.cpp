#include "engine/model/adapters/adapter_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "engine/files/gguf_reader.h"
#include "engine/files/safetensors_reader.h"
#include "engine/model/adapters/peft_config.h"
#include "engine/model/weights/digest.h"
#include "engine/model/weights/file_values.h"

namespace ringside {
namespace {

constexpr double kMaxScale = 1e6;  // values in use are about 1

/// The two tensors of one module.
struct Pair {
  const FileTensor *a = nullptr, *b = nullptr;
};
using Pairs = std::map<std::string, Pair, std::less<>>;

Status Unknown(std::string_view tensor) {
  return InvalidArgument(
      fmt::format("tensor '{}' is not a LoRA matrix, which is all that is supported; "
                  "adapted embeddings, DoRA magnitudes and whole modules are not",
                  tensor));
}

/// Adds a tensor named prefix + module + one of the two endings.
Status Enter(const FileTensor& tensor, std::string_view prefix, std::string_view end_of_a, std::string_view end_of_b,
             Pairs* pairs) {
  const std::string_view name = tensor.name;
  const bool is_a = name.ends_with(end_of_a);
  const size_t end = (is_a ? end_of_a : end_of_b).size();
  if (!name.starts_with(prefix) || name.size() <= prefix.size() + end) return Unknown(name);
  if (!is_a && !name.ends_with(end_of_b)) return Unknown(name);
  Pair& pair = (*pairs)[std::string(name.substr(prefix.size(), name.size() - prefix.size() - end))];
  const FileTensor*& place = is_a ? pair.a : pair.b;
  if (place != nullptr) return Corruption(fmt::format("tensor '{}' occurs twice", name));
  place = &tensor;
  return Status::Ok();
}

Status NotFinite(const FileTensor& tensor) {
  return Corruption(fmt::format("tensor '{}' holds a value that is not finite", tensor.name));
}

bool HasFiniteValues(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

/// `scale_of(module, rank)` returns s, or an error if the rank is wrong.
template <class ScaleOf>
Result<AdapterMatrix> ReadMatrix(const std::string& module, const Pair& pair, const ScaleOf& scale_of) {
  if (pair.a == nullptr || pair.b == nullptr) {
    return Corruption(fmt::format("module '{}' has an {} and no {}", module, pair.a != nullptr ? "A" : "B",
                                  pair.a != nullptr ? "B" : "A"));
  }
  const FileTensor &a = *pair.a, &b = *pair.b;
  for (const FileTensor* tensor : {&a, &b}) {
    if (tensor->shape.size() != 2) return Corruption(fmt::format("tensor '{}' is not a matrix", tensor->name));
  }
  AdapterMatrix out{
      .module = module, .rank = a.shape[0], .inputs = a.shape[1], .outputs = b.shape[0], .a = {}, .b = {}};
  if (out.rank < 1 || out.rank > kMaxAdapterRank) {
    return Corruption(
        fmt::format("tensor '{}' has the rank {}; it must be 1 to {}", a.name, out.rank, kMaxAdapterRank));
  }
  if (b.shape[1] != out.rank) {
    return Corruption(
        fmt::format("tensors '{}' and '{}' have different ranks: {} and {}", a.name, b.name, out.rank, b.shape[1]));
  }
  ASSIGN_OR_RETURN(const double scale, scale_of(module, out.rank));
  if (!(std::abs(scale) <= kMaxScale)) return Corruption(fmt::format("module '{}' is scaled by {}", module, scale));
  ASSIGN_OR_RETURN(out.a, ToFloats(a.name, a.data));
  ASSIGN_OR_RETURN(out.b, ToFloats(b.name, b.data));
  for (float& value : out.b) value *= static_cast<float>(scale);
  if (!HasFiniteValues(out.a)) return NotFinite(a);
  if (!HasFiniteValues(out.b)) return NotFinite(b);
  return out;
}

template <class ScaleOf>
Result<std::vector<AdapterMatrix>> ReadMatrices(const Pairs& pairs, const ScaleOf& scale_of) {
  if (pairs.empty()) return Corruption("the file has no adapter tensors");
  std::vector<AdapterMatrix> out;
  for (const auto& [module, pair] : pairs) {
    ASSIGN_OR_RETURN(AdapterMatrix matrix, ReadMatrix(module, pair, scale_of));
    out.push_back(std::move(matrix));
  }
  return out;
}

Result<AdapterFile> ReadPeft(const std::string& folder) {
  ASSIGN_OR_RETURN(const PeftConfig config, PeftConfig::Read(folder + "/adapter_config.json"));
  const std::string path = folder + "/adapter_model.safetensors";
  ASSIGN_OR_RETURN(const SafeTensors file, SafeTensors::OpenFile(path));
  if (!file.others().empty()) {
    const OtherTensor& other = file.others().front();
    return InvalidArgument(fmt::format("tensor '{}' is stored as {}, which is not supported", other.name, other.type));
  }
  Pairs pairs;
  for (const FileTensor& tensor : file.tensors()) {
    RETURN_IF_ERROR(Enter(tensor, "base_model.model.", ".lora_A.weight", ".lora_B.weight", &pairs));
  }
  for (const std::string& target : config.targets()) {
    const bool there = std::ranges::any_of(pairs, [&](const auto& pair) { return NamesModule(target, pair.first); });
    if (!there) return Corruption(fmt::format("target_modules has '{}', but no tensor adapts it", target));
  }
  AdapterFile out;
  ASSIGN_OR_RETURN(out.matrices, ReadMatrices(pairs, [&](const std::string& module, int64_t rank) {
                     return config.ScaleOf(module, rank);
                   }));
  return out;
}

Result<AdapterFile> ReadGguf(const std::string& path) {
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  const std::string type = file.String("general.type").value_or(""), kind = file.String("adapter.type").value_or("");
  if (type != "adapter" || kind != "lora") {
    return InvalidArgument(
        fmt::format("general.type is '{}' and adapter.type '{}'; a LoRA adapter has 'adapter' and 'lora'", type, kind));
  }
  // As in llama.cpp: without alpha, s is 1.
  const double alpha = file.Float("adapter.lora.alpha").value_or(0);
  if (!std::isfinite(alpha)) return Corruption("adapter.lora.alpha is not finite");
  Pairs pairs;
  for (const FileTensor& tensor : file.tensors()) {
    RETURN_IF_ERROR(Enter(tensor, "", ".weight.lora_a", ".weight.lora_b", &pairs));
  }
  AdapterFile out;
  out.gguf = true;
  out.architecture = file.String("general.architecture").value_or("");
  ASSIGN_OR_RETURN(out.matrices, ReadMatrices(pairs, [&](const std::string&, int64_t rank) -> Result<double> {
                     return alpha == 0 ? 1 : alpha / static_cast<double>(rank);
                   }));
  return out;
}

}  // namespace

std::array<uint8_t, 16> AdapterFile::Digest() const {
  ringside::Digest digest;
  for (const AdapterMatrix& matrix : matrices) {
    digest.AddText(matrix.module);
    for (const int64_t size : {matrix.rank, matrix.inputs, matrix.outputs}) digest.AddNumber(size);
    for (const auto* values : {&matrix.a, &matrix.b}) {
      digest.AddBytes(values->data(), values->size() * sizeof(float));
    }
  }
  return digest.Get();
}

Result<AdapterFile> ReadAdapter(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? ReadPeft(path) : ReadGguf(path);
}

}  // namespace ringside
