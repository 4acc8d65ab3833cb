#include "engine/files/tensor_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ringside {
namespace {

Status Missing(const std::string& name) { return Corruption(fmt::format("tensor '{}' is missing", name)); }

Status CheckPart(const std::string& name, std::string_view type, std::string_view wanted_type,
                 const std::vector<int64_t>& shape, const std::vector<int64_t>& wanted) {
  if (type != wanted_type) {
    return InvalidArgument(fmt::format("tensor '{}' is stored as {}, only {} is supported", name, type, wanted_type));
  }
  if (shape == wanted) return Status::Ok();
  return Corruption(fmt::format("tensor '{}' has shape {}, expected {}", name, ShapeText(shape), ShapeText(wanted)));
}

}  // namespace

std::string ShapeText(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

TensorParts::TensorParts(const SafeTensors& file) {
  for (const FileTensor& tensor : file.tensors()) floats_.emplace(tensor.name, &tensor);
  for (const OtherTensor& tensor : file.others()) others_.emplace(tensor.name, &tensor);
}

Result<std::vector<int64_t>> TensorParts::Shape(const std::string& name, size_t dimensions) const {
  const std::vector<int64_t>& shape = others_.at(name)->shape;
  if (shape.size() == dimensions) return shape;
  return Corruption(fmt::format("tensor '{}' has {} dimensions", name, shape.size()));
}

bool TensorParts::IsOneNumber(std::string_view name) const {
  const auto found = floats_.find(name);
  return found != floats_.end() && found->second->data.rows * found->second->data.cols == 1;
}

Status TensorParts::Take(const std::string& name, std::string_view type, const std::vector<int64_t>& shape,
                         std::span<const std::byte>* bytes) {
  const auto found = others_.find(name);
  if (found == others_.end()) return Missing(name);
  RETURN_IF_ERROR(CheckPart(name, found->second->type, type, found->second->shape, shape));
  *bytes = found->second->bytes;
  others_.erase(found);
  return Status::Ok();
}

Status TensorParts::TakeHalves(const std::string& name, const std::vector<int64_t>& shape,
                               std::span<const std::byte>* bytes) {
  ASSIGN_OR_RETURN(const FileTensor* tensor, TakeFloats(name));
  *bytes = tensor->data.bytes;
  return CheckPart(name, Traits(tensor->data.dtype).name, Traits(DType::kF16).name, tensor->shape, shape);
}

Result<const FileTensor*> TensorParts::TakeFloats(const std::string& name) {
  const auto found = floats_.find(name);
  if (found == floats_.end()) return Missing(name);
  const FileTensor* tensor = found->second;
  floats_.erase(found);
  return tensor;
}

void TensorParts::RemoveBySuffix(std::span<const std::string_view> suffixes) {
  const auto has_suffix = [&](const auto& item) {
    return std::ranges::any_of(suffixes, [&](std::string_view suffix) { return item.first.ends_with(suffix); });
  };
  std::erase_if(floats_, has_suffix);
  std::erase_if(others_, has_suffix);
}

Status TensorParts::Add(FileTensor joined) {
  if (!joined_names_.insert(joined.name).second || floats_.contains(joined.name) || others_.contains(joined.name)) {
    return Corruption(fmt::format("tensor '{}' is stored twice, in different formats", joined.name));
  }
  joined_.push_back(std::move(joined));
  return Status::Ok();
}

JoinedTensors TensorParts::Finish() {
  JoinedTensors out{.tensors = std::move(joined_)};
  for (const auto& [name, tensor] : floats_) out.tensors.push_back(*tensor);
  for (const auto& [name, tensor] : others_) out.unsupported.emplace_back(name, tensor->type);
  return out;
}

}  // namespace ringside
