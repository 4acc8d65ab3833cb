// Element types, non-owning views and the owning buffer. Plain data: nothing here computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace ringside {

/// Element types of weights, activations and caches. The quantized ones of files are GGML's block formats, with 32
/// values per block (64 in NVFP4) or 256 per super-block (K formats, IQ and TQ types but IQ4_NL), and four of ours for
/// what safetensors store apart, with 32 values and their row's or group's scale: kQ4_Z, 4 bits with a float16 scale
/// and an integer zero point, as in AWQ and GPTQ; kScaledE4M3 and kScaledI8, one byte with a float32 scale;
/// kScaledNVFP4, NVFP4's block with a float32 scale before it. Files do not contain the types after these. kI8 and
/// kF8E4M3 (Micikevicius et al. 2022: no infinity, magnitudes up to 448) have one byte per element; their owner keeps
/// the scales. kBlockQuant2 ... kBlockQuant8 (2, 3, 4, 5, 6 and 8 bits per element), kBlockQuantE2M1 (MXFP4's 4-bit
/// codes) and kBlockQuantE4M3 (8-bit codes) are the block-quantized types of GPUs, with a scale per group of inputs.
enum class DType : uint8_t {
#define DTYPE(enumerator, ...) enumerator,
#include "kernels/dtypes.def"
#undef DTYPE
};

/// A row of kernels/dtypes.def.
struct DTypeTraits {
  std::string_view name;
  int64_t block_elements;  // values that share a scale; 1 for float types
  int64_t block_bytes;     // bytes of such a block in a file
  int64_t gguf_type;       // number in GGUF files; -1: none
  int half_scales[2];      // offsets of a block's float16 scales; -1: none
  DType form;              // type of decoded blocks
};
/// All types, in the order of their enumerators.
std::span<const DTypeTraits> AllTraits();
inline const DTypeTraits& Traits(DType type) { return AllTraits()[static_cast<size_t>(type)]; }

/// Bytes of `elements` consecutive values as stored in a file; elements is a multiple of the block.
inline int64_t StorageBytes(DType type, int64_t elements) {
  return elements / Traits(type).block_elements * Traits(type).block_bytes;
}
inline bool IsQuantized(DType type) { return Traits(type).block_elements > 1; }
/// Types of weights in files.
constexpr bool IsFileType(DType type) { return type < DType::kI8; }
/// Types of weights with one scale per row (kernels/formats/row_quantization.h).
inline bool HasRowScales(DType type) { return type == DType::kI8 || type == DType::kF8E4M3; }
/// Types of weights with a scale per group of inputs (kernels/cuda/linear/block_quant_layout.h).
constexpr bool HasGroupScales(DType type) { return type >= DType::kBlockQuant2; }

/// A row-major matrix in host memory in its file format (a vector has one row). Borrowed.
struct HostTensor {
  DType dtype = DType::kF32;
  int64_t rows = 0, cols = 0;
  std::span<const std::byte> bytes;  // StorageBytes(dtype, rows * cols)
  bool table = false;                // one row per token or position: embedding, output head
  bool expert = false;               // belongs to a mixture of experts; a row uses only a few
  bool adapter = false;              // belongs to an adapter: not quantized further
  std::span<const int32_t> order;    // act-order: value c of a row belongs to input order[c]; empty: to input c
};

/// A matrix of activations on the backend's device: element (r, c) at data + (r * stride + c). Borrowed.
struct Tensor {
  DType dtype = DType::kF32;
  void* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;

  float* f32() const { return static_cast<float*>(data); }
  float* f32_row(int64_t r) const { return static_cast<float*>(data) + r * stride; }
  /// Columns [first, first + count) of every row (float types only).
  Tensor Columns(int64_t first, int64_t count) const {
    return {dtype, static_cast<std::byte*>(data) + StorageBytes(dtype, first), rows, count, stride};
  }
  /// Rows [first, first + count) (float types only).
  Tensor Rows(int64_t first, int64_t count) const {
    return {dtype, static_cast<std::byte*>(data) + StorageBytes(dtype, first * stride), count, cols, stride};
  }
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

class SlabMemory;

/// Memory on a backend's device, freed on destruction. Move-only.
class Buffer {
 public:
  Buffer() = default;
  Buffer(SlabMemory* owner, void* data, size_t bytes) : owner_(owner), data_(data), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer();

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  SlabMemory* owner_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// A weight matrix y = W x in the backend's own format: [rows = outputs, cols = inputs]. The only copy in memory.
struct Weight {
  DType dtype = DType::kF32;
  int64_t rows = 0, cols = 0;
  Buffer data;
  Buffer scales;  // float32 row scales; if HasRowScales(dtype) or HasGroupScales(dtype); kBlockQuantE4M3: tile scales
  Buffer order;   // HostTensor::order, int32, if the backend stores the values in that order
};

}  // namespace ringside
