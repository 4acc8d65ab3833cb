#include "engine/files/file_tensor.h"

#include <cstring>

#include "engine/files/packed_tensors.h"
#include "kernels/formats/file_formats.h"

namespace ringside {
namespace {

std::vector<std::byte> Scaled(DType dtype, std::span<const std::byte> bytes, float scale) {
  const auto element = static_cast<size_t>(StorageBytes(dtype, 1));
  std::vector<std::byte> out(bytes.size() / element * sizeof(float));
  for (size_t i = 0; i < bytes.size() / element; ++i) {
    const float value = scale * FloatValue(dtype, reinterpret_cast<const uint8_t*>(bytes.data()) + i * element);
    std::memcpy(out.data() + i * sizeof(float), &value, sizeof(float));
  }
  return out;
}

}  // namespace

FileTensor Whole(const FileTensor& tensor, std::vector<std::byte>* storage) {
  if (tensor.packed != nullptr) {
    MakeBlocks(tensor, storage);
    FileTensor whole = tensor;
    whole.data.bytes = *storage;
    return whole;
  }
  if (tensor.pieces.empty()) return tensor;
  storage->clear();
  for (int64_t stretch = 0; stretch < tensor.stretches; ++stretch) {
    for (const auto& piece : tensor.pieces) {
      const size_t bytes = piece.size() / static_cast<size_t>(tensor.stretches);
      const auto part = piece.subspan(static_cast<size_t>(stretch) * bytes, bytes);
      storage->insert(storage->end(), part.begin(), part.end());
    }
  }
  FileTensor whole{.name = tensor.name, .shape = tensor.shape, .data = tensor.data};
  if (tensor.scale != 1) {
    *storage = Scaled(tensor.data.dtype, *storage, tensor.scale);
    whole.data.dtype = DType::kF32;
  }
  whole.data.bytes = *storage;
  return whole;
}

}  // namespace ringside
