#include "engine/model/weights/file_values.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/formats/file_formats.h"

namespace ringside {
namespace {

float HalfToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 0x1f, fraction = half & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

template <class T>
std::vector<T> Values(std::span<const std::byte> bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

// [rows, cols] to [cols, rows]; T has the element's width.
template <class T>
std::vector<std::byte> TransposedAs(const HostTensor& from) {
  const std::vector<T> in = Values<T>(from.bytes);
  std::vector<T> out(in.size());
  for (int64_t r = 0; r < from.rows; ++r) {
    for (int64_t c = 0; c < from.cols; ++c) {
      out[static_cast<size_t>(c * from.rows + r)] = in[static_cast<size_t>(r * from.cols + c)];
    }
  }
  std::vector<std::byte> bytes(from.bytes.size());
  std::memcpy(bytes.data(), out.data(), bytes.size());
  return bytes;
}

}  // namespace

Result<std::vector<float>> ToFloats(std::string_view name, const HostTensor& tensor) {
  if (tensor.dtype == DType::kF32) return Values<float>(tensor.bytes);
  if (tensor.dtype != DType::kF16 && tensor.dtype != DType::kBF16) {
    return InvalidArgument(
        fmt::format("tensor '{}' is stored as {}, a vector must be float", name, Traits(tensor.dtype).name));
  }
  std::vector<float> out;
  for (const uint16_t bits : Values<uint16_t>(tensor.bytes)) {
    out.push_back(tensor.dtype == DType::kF16 ? HalfToFloat(bits)
                                              : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
  }
  return out;
}

std::vector<std::byte> Transposed(const HostTensor& tensor) {
  return StorageBytes(tensor.dtype, 1) == 4 ? TransposedAs<uint32_t>(tensor) : TransposedAs<uint16_t>(tensor);
}

std::vector<std::byte> RowsOf(const HostTensor& tensor, std::span<const int64_t> rows) {
  const auto row_bytes = static_cast<size_t>(StorageBytes(tensor.dtype, tensor.cols));
  std::vector<std::byte> out;
  out.reserve(rows.size() * row_bytes);
  for (const int64_t row : rows) {
    const auto bytes = tensor.bytes.subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

Result<std::vector<float>> TransposedHeads(const FileTensor& tensor, std::span<const int64_t> rows,
                                           int64_t rows_of_head) {
  RETURN_IF_ERROR(CheckWeight(tensor.data));
  const int64_t cols = tensor.data.cols;
  std::vector<float> out(rows.size() * static_cast<size_t>(cols)), row(static_cast<size_t>(cols));
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    ReadFileRow(tensor.data, rows[static_cast<size_t>(i)], row.data());
    float* head = out.data() + i / rows_of_head * rows_of_head * cols;
    for (int64_t c = 0; c < cols; ++c) head[c * rows_of_head + i % rows_of_head] = row[static_cast<size_t>(c)];
  }
  return out;
}

std::vector<int64_t> RowsInOrder(RowOrder order, const ModelSpec& spec, int64_t rows) {
  std::vector<int64_t> out;
  const int64_t d = spec.head_dim, queries = spec.heads / spec.kv_heads, group = (queries + 2) * d;
  const auto add_head = [&](int64_t first) {
    for (int64_t i = 0; i < d; ++i) out.push_back(first + i);
  };
  if (order == RowOrder::kByGroup) {
    for (int64_t h = 0; h < spec.heads; ++h) add_head(h / queries * group + h % queries * d);
    for (int64_t g = 0; g < spec.kv_heads; ++g) add_head(g * group + queries * d);
    for (int64_t g = 0; g < spec.kv_heads; ++g) add_head(g * group + (queries + 1) * d);
  } else if (order == RowOrder::kAlternating) {
    for (int64_t i = 0; i < rows / 2; ++i) out.push_back(2 * i);
    for (int64_t i = 0; i < rows / 2; ++i) out.push_back(2 * i + 1);
  } else if (order == RowOrder::kQueryThenGate) {
    for (int64_t h = 0; h < spec.heads; ++h) add_head((2 * h + 1) * d);
    for (int64_t h = 0; h < spec.heads; ++h) add_head(2 * h * d);
  } else if (order == RowOrder::kByKeyHead) {
    const RecurrenceShape& sizes = spec.recurrence;
    const int64_t served = sizes.value_heads / sizes.key_heads, values = served * sizes.value_size;
    const bool wide = rows != 2 * sizes.value_heads;
    int64_t first = 0;  // of a key head's parts: q, k, v and gate; or weights and rates
    for (const int64_t part :
         wide ? std::vector{sizes.key_size, sizes.key_size, values, values} : std::vector{served, served}) {
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t in_head = row % (rows / sizes.key_heads);
        if (in_head >= first && in_head < first + part) out.push_back(row);
      }
      first += part;
    }
  } else {
    for (int64_t i = 0; i < rows; ++i) out.push_back(i);
  }
  return out;
}

std::vector<float> SinusoidalPositions(int64_t first, int64_t rows, int64_t cols) {
  std::vector<float> out(static_cast<size_t>(rows * cols), 0.0f);
  const int64_t half = cols / 2;
  const double step = std::log(10000.0) / static_cast<double>(half > 1 ? half - 1 : 1);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < half; ++j) {
      const double angle = static_cast<double>(first + r) * std::exp(-step * static_cast<double>(j));
      out[static_cast<size_t>(r * cols + j)] = static_cast<float>(std::sin(angle));
      out[static_cast<size_t>(r * cols + half + j)] = static_cast<float>(std::cos(angle));
    }
  }
  return out;
}

}  // namespace ringside
