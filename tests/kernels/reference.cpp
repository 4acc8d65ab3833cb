#include "tests/kernels/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace ringside::testing {
namespace {

void PutU16(std::vector<std::byte>& out, size_t at, uint16_t x) { std::memcpy(out.data() + at, &x, 2); }
uint8_t At(const std::vector<std::byte>& bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); }

uint16_t U16At(const std::vector<std::byte>& bytes, size_t i) {
  uint16_t x;
  std::memcpy(&x, bytes.data() + i, 2);
  return x;
}

/// Where the float16 scales of a block lie; -1: none.
struct HalfPlaces {
  int d, m;
};
HalfPlaces PlacesOf(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ5_0:
      return {0, -1};
    case DType::kQ6_K:
      return {208, -1};
    default:
      return {0, 2};
  }
}

/// Value i of the block at `at`.
double LegacyValue(DType dtype, const std::vector<std::byte>& b, size_t at, int i) {
  const double d = HalfValue(U16At(b, at));
  if (dtype == DType::kQ8_0) return d * static_cast<int8_t>(At(b, at + 2 + static_cast<size_t>(i)));
  const bool minimum = dtype == DType::kQ4_1 || dtype == DType::kQ5_1;
  const bool fifth = dtype == DType::kQ5_0 || dtype == DType::kQ5_1;
  const size_t high = at + (minimum ? 4 : 2), low = high + (fifth ? 4 : 0);
  int q = At(b, low + static_cast<size_t>(i % 16));
  q = i < 16 ? q % 16 : q / 16;
  if (fifth) q += 16 * (At(b, high + static_cast<size_t>(i / 8)) >> (i % 8) & 1);
  if (minimum) return d * q + HalfValue(U16At(b, at + 2));
  return d * (q - (fifth ? 16 : 8));
}

double SuperValue(DType dtype, const std::vector<std::byte>& b, size_t at, int i) {
  const int j = i / 32;  // block of 32
  if (dtype == DType::kQ6_K) {
    const int half = i / 128, l = i % 32, part = i % 128 / 32;
    const int low = At(b, at + static_cast<size_t>(64 * half + 32 * (part % 2) + l));
    const int high = At(b, at + static_cast<size_t>(128 + 32 * half + l)) >> (2 * part) & 3;
    const int q = (part < 2 ? low % 16 : low / 16) + 16 * high;
    return HalfValue(U16At(b, at + 208)) * static_cast<int8_t>(At(b, at + 192 + static_cast<size_t>(i / 16))) *
           (q - 32);
  }
  int scale, minimum;
  const auto packed = [&](int k) { return static_cast<int>(At(b, at + 4 + static_cast<size_t>(k))); };
  if (j < 4) {
    scale = packed(j) & 63, minimum = packed(j + 4) & 63;
  } else {
    scale = (packed(j + 4) & 15) + 16 * (packed(j - 4) >> 6), minimum = (packed(j + 4) >> 4) + 16 * (packed(j) >> 6);
  }
  const bool fifth = dtype == DType::kQ5_K;
  const int low = At(b, at + (fifth ? 48u : 16u) + static_cast<size_t>(32 * (j / 2) + i % 32));
  int q = j % 2 == 0 ? low % 16 : low / 16;
  if (fifth) q += 16 * (At(b, at + 16 + static_cast<size_t>(i % 32)) >> j & 1);
  return HalfValue(U16At(b, at)) * scale * q - HalfValue(U16At(b, at + 2)) * minimum;
}

double FloatTypeValue(DType dtype, const std::vector<std::byte>& b, size_t i) {
  if (dtype == DType::kF16) return HalfValue(U16At(b, 2 * i));
  float x;
  if (dtype == DType::kF32) {
    std::memcpy(&x, b.data() + 4 * i, 4);
  } else {
    const uint32_t bits = static_cast<uint32_t>(U16At(b, 2 * i)) << 16;
    std::memcpy(&x, &bits, 4);
  }
  return x;
}

}  // namespace

double HalfValue(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

std::vector<float> RandomFloats(size_t n, uint32_t seed, float scale) {
  std::mt19937 g(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> out(n);
  for (float& x : out) x = normal(g);
  return out;
}

RandomWeight MakeRandomWeight(DType dtype, int64_t rows, int64_t cols, uint32_t seed) {
  RandomWeight w{dtype, rows, cols, {}, {}};
  std::mt19937 g(seed);
  const DTypeTraits& traits = Traits(dtype);
  const size_t count = static_cast<size_t>(rows * cols), block = static_cast<size_t>(traits.block_elements);
  const size_t block_bytes = static_cast<size_t>(traits.block_bytes);
  w.bytes.resize(count / block * block_bytes);
  for (std::byte& b : w.bytes) b = static_cast<std::byte>(g() & 255);
  w.values.resize(count);
  if (block == 1) {
    const std::vector<float> floats = RandomFloats(count, seed, 0.5f);
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits;
      std::memcpy(&bits, &floats[i], 4);
      if (dtype == DType::kF32) std::memcpy(w.bytes.data() + 4 * i, &bits, 4);
      if (dtype == DType::kBF16) PutU16(w.bytes, 2 * i, static_cast<uint16_t>(bits >> 16));
      if (dtype == DType::kF16) PutU16(w.bytes, 2 * i, static_cast<uint16_t>((g() & 0x83ff) | (8 + g() % 7) << 10));
      w.values[i] = FloatTypeValue(dtype, w.bytes, i);
    }
    return w;
  }
  const HalfPlaces places = PlacesOf(dtype);
  for (size_t b = 0; b < count / block; ++b) {
    // 2^-8 to 2^-6, smaller where integers are larger; minima of either sign.
    const uint32_t exponent = dtype == DType::kQ8_0 ? 6 : block == 256 ? 4 : 9;
    PutU16(w.bytes, b * block_bytes + static_cast<size_t>(places.d),
           static_cast<uint16_t>((g() & 0x83ff) | exponent << 10));
    if (places.m >= 0) {
      PutU16(w.bytes, b * block_bytes + static_cast<size_t>(places.m),
             static_cast<uint16_t>((g() & 0x83ff) | (exponent + 2) << 10));
    }
    for (size_t i = 0; i < block; ++i) {
      w.values[b * block + i] = block == 32 ? LegacyValue(dtype, w.bytes, b * block_bytes, static_cast<int>(i))
                                            : SuperValue(dtype, w.bytes, b * block_bytes, static_cast<int>(i));
    }
  }
  return w;
}

std::unique_ptr<Backend> MakeBackend(std::string_view set, int threads) {
  auto backend = MakeCpuBackend({.threads = threads, .instruction_set = std::string(set)});
  EXPECT_TRUE(backend.ok()) << backend.status().ToString();
  return std::move(backend.value());
}

Product Multiply(const std::vector<float>& x, const RandomWeight& w, int64_t row, int64_t output) {
  Product p;
  for (int64_t k = 0; k < w.cols; ++k) {
    const double term = x[static_cast<size_t>(row * w.cols + k)] * w.values[static_cast<size_t>(output * w.cols + k)];
    p.sum += term, p.size += std::fabs(term);
  }
  return p;
}

}  // namespace ringside::testing
