#include "engine/files/gguf_scales.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "engine/files/packed_tensors.h"

namespace ringside {
namespace {

constexpr std::string_view kWeight = ".weight", kScale = ".scale", kInputScale = ".input_scale";
constexpr float kLargestProduct = 448 * 6;  // of a block's scale and a value

Status Join(const FileTensor& factor, FileTensor* tensor) {
  const int64_t experts = tensor->shape.size() == 3 ? tensor->shape.front() : 1,
                count = factor.data.rows * factor.data.cols;
  if (factor.data.dtype != DType::kF32 || (count != 1 && count != experts)) {
    return Corruption(fmt::format("tensor '{}' has {} values of {}, expected {} of F32", factor.name, count,
                                  Traits(factor.data.dtype).name, experts));
  }
  PackedParts parts{.kind = PackedParts::Kind::kGgufNvfp4,
                    .integers = tensor->data.bytes,
                    .matrix_rows = tensor->data.rows / count,
                    .block = {0, 0}};
  parts.float_scales.resize(static_cast<size_t>(count));
  std::memcpy(parts.float_scales.data(), factor.data.bytes.data(), parts.float_scales.size() * sizeof(float));
  for (const float value : parts.float_scales) {
    if (value >= 0 && value <= std::numeric_limits<float>::max() / kLargestProduct) continue;
    return Corruption(fmt::format("tensor '{}' has a scale of {}", factor.name, value));
  }
  tensor->data.dtype = DType::kScaledNVFP4;
  tensor->data.bytes = {};
  tensor->packed = std::make_shared<const PackedParts>(std::move(parts));
  return Status::Ok();
}

}  // namespace

Status JoinGgufScales(std::vector<FileTensor>* tensors) {
  std::map<std::string_view, const FileTensor*> factors;
  for (const FileTensor& tensor : *tensors) {
    if (tensor.name.ends_with(kScale)) factors.emplace(tensor.name, &tensor);
  }
  std::set<std::string> used;
  for (FileTensor& tensor : *tensors) {
    if (tensor.data.dtype != DType::kNVFP4 || !tensor.name.ends_with(kWeight)) continue;
    const std::string module = tensor.name.substr(0, tensor.name.size() - kWeight.size());
    used.insert(module + std::string(kInputScale));
    const auto found = factors.find(module + std::string(kScale));
    if (found == factors.end()) continue;
    RETURN_IF_ERROR(Join(*found->second, &tensor));
    used.insert(found->second->name);
  }
  std::erase_if(*tensors, [&](const FileTensor& tensor) { return used.contains(tensor.name); });
  return Status::Ok();
}

}  // namespace ringside
