#include "tests/kernels/devices.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "kernels/formats/half.h"
#include "tests/kernels/reference.h"

namespace ringside::testing {

float Rounded(DType dtype, float x) {
  if (dtype == DType::kF16) return HalfToFloat(FloatToHalf(x));
  return dtype == DType::kBF16 ? Bf16ToFloat(FloatToBf16(x)) : x;
}

std::vector<float> DeviceTest::RandomRounded(int64_t n, uint32_t seed, float scale) const {
  std::vector<float> out = RandomFloats(static_cast<size_t>(n), seed, scale);
  for (float& x : out) x = Rounded(type_, x);
  return out;
}

bool MultipliesInE4M3(const Backend& device, DType weights, int64_t rows, int64_t outputs, int64_t cols) {
  return device.multiplies_in_e4m3() && weights == DType::kF8E4M3 && rows > 16 && outputs % 16 == 0 && cols % 8 == 0;
}

std::vector<float> RoundedToE4M3(const std::vector<float>& rows, int64_t cols) {
  std::vector<float> out = rows;
  std::vector<uint8_t> q(static_cast<size_t>(cols));
  for (size_t at = 0; at < out.size(); at += q.size()) {
    const std::span<float> row = std::span(out).subspan(at, q.size());
    const float scale = QuantizeRow(DType::kF8E4M3, row, q.data());
    for (size_t c = 0; c < q.size(); ++c) row[c] = scale * QuantizedValue(DType::kF8E4M3, q[c]);
  }
  return out;
}

DeviceMatrix::DeviceMatrix(Backend& backend, DType dtype, int64_t rows, int64_t cols, const std::vector<float>& values,
                           int64_t stride)
    : backend_(backend) {
  if (stride == 0) stride = cols;
  const auto element = static_cast<size_t>(StorageBytes(dtype, 1));
  std::vector<std::byte> bytes(static_cast<size_t>(rows * stride) * element);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const float x = values[static_cast<size_t>(r * cols + c)];
      std::byte* to = bytes.data() + static_cast<size_t>(r * stride + c) * element;
      const uint16_t half = dtype == DType::kF16 ? FloatToHalf(x) : FloatToBf16(x);
      std::memcpy(to, dtype == DType::kF32 ? static_cast<const void*>(&x) : &half, element);
    }
  }
  buffer_ = std::move(backend.Allocate(bytes.size()).value());
  backend.CopyToDevice(buffer_.data(), bytes.data(), bytes.size());
  backend.Synchronize();
  tensor_ = {dtype, buffer_.data(), rows, cols, stride};
}

std::vector<float> DeviceMatrix::Get() const {
  const auto element = static_cast<size_t>(StorageBytes(tensor_.dtype, 1));
  std::vector<std::byte> bytes(static_cast<size_t>(tensor_.rows * tensor_.stride) * element);
  backend_.CopyToHost(bytes.data(), tensor_.data, bytes.size());
  backend_.Synchronize();
  std::vector<float> out;
  for (int64_t r = 0; r < tensor_.rows; ++r) {
    for (int64_t c = 0; c < tensor_.cols; ++c) {
      const std::byte* from = bytes.data() + static_cast<size_t>(r * tensor_.stride + c) * element;
      float x = 0;
      uint16_t half = 0;
      std::memcpy(element == 4 ? static_cast<void*>(&x) : &half, from, element);
      out.push_back(element == 4 ? x : tensor_.dtype == DType::kF16 ? HalfToFloat(half) : Bf16ToFloat(half));
    }
  }
  return out;
}

DeviceFloats::DeviceFloats(Backend& backend, const std::vector<float>& values)
    : buffer_(std::move(backend.Allocate(values.size() * sizeof(float)).value())) {
  backend.CopyToDevice(buffer_.data(), values.data(), values.size() * sizeof(float));
  backend.Synchronize();
}

}  // namespace ringside::testing
