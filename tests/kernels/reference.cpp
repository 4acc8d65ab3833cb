#include "tests/kernels/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/formats/file_formats.h"

namespace ringside::testing {
namespace {

void PutU16(std::vector<std::byte>& out, size_t at, uint16_t x) { std::memcpy(out.data() + at, &x, 2); }
uint8_t At(const std::vector<std::byte>& bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); }

uint16_t U16At(const std::vector<std::byte>& bytes, size_t i) {
  uint16_t x;
  std::memcpy(&x, bytes.data() + i, 2);
  return x;
}

/// Offsets of the float16 scales in a block; -1: none.
struct HalfPlaces {
  int d, m;
};
HalfPlaces PlacesOf(DType dtype) {
  static constexpr struct {
    DType dtype;
    HalfPlaces places;
  } kPlaces[] = {{DType::kQ4_1, {0, 2}},         {DType::kQ5_1, {0, 2}},       {DType::kQ4_K, {0, 2}},
                 {DType::kQ5_K, {0, 2}},         {DType::kQ6_K, {208, -1}},    {DType::kQ2_K, {80, 82}},
                 {DType::kQ3_K, {108, -1}},      {DType::kMXFP4, {-1, -1}},    {DType::kIQ1_M, {-1, -1}},
                 {DType::kTQ1_0, {52, -1}},      {DType::kTQ2_0, {64, -1}},    {DType::kNVFP4, {-1, -1}},
                 {DType::kScaledE4M3, {-1, -1}}, {DType::kScaledI8, {-1, -1}}, {DType::kScaledNVFP4, {-1, -1}}};
  const auto* found = std::ranges::find_if(kPlaces, [&](const auto& row) { return row.dtype == dtype; });
  return found == std::end(kPlaces) ? HalfPlaces{0, -1} : found->places;
}
bool HasFloatScale(DType dtype) {
  return dtype == DType::kScaledE4M3 || dtype == DType::kScaledI8 || dtype == DType::kScaledNVFP4;
}
float FloatAt(const std::vector<std::byte>& bytes, size_t i) {
  float x;
  std::memcpy(&x, bytes.data() + i, 4);
  return x;
}

/// Replaces scales that are no float16 numbers, and bytes that are NaN, by usual ones.
template <class Random>
void TameBlock(DType dtype, size_t at, Random& g, std::vector<std::byte>* bytes) {
  const auto put = [&](size_t i, uint32_t value) { (*bytes)[at + i] = static_cast<std::byte>(value); };
  if (dtype == DType::kMXFP4) put(0, 120 + g() % 4);
  if (dtype == DType::kQ4_Z) put(2, g() % 17);
  if (HasFloatScale(dtype)) {
    const float scale = std::ldexp(static_cast<float>(1 + g() % 1000), -17);
    std::memcpy(bytes->data() + at, &scale, 4);
  }
  if (dtype == DType::kScaledE4M3) {
    for (size_t i = 4; i < 36; ++i) (*bytes)[at + i] &= std::byte{0xbf};  // below 2
  }
  if (dtype == DType::kNVFP4 || dtype == DType::kScaledNVFP4) {
    for (size_t i = 0; i < 4; ++i) put((dtype == DType::kNVFP4 ? 0 : 4) + i, 0x10 + g() % 0x28);
  }
  if (dtype == DType::kIQ1_M) {  // the high four bits of each word: 2^-9
    for (size_t word = 0; word < 4; ++word) {
      const auto low = std::to_integer<uint32_t>((*bytes)[at + 49 + 2 * word]) & 15;
      put(49 + 2 * word, low | (word == 3 ? 0x10u : word == 2 ? 0x80u : 0x30u));
    }
  }
}

/// Value q of the non-uniform types.
double Iq4Value(int q) {
  constexpr double kValues[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return kValues[q];
}
double E2M1Value(int q) {
  const int exponent = q >> 1 & 3;
  const double magnitude = exponent == 0 ? 0.5 * (q & 1) : std::ldexp(1 + 0.5 * (q & 1), exponent - 1);
  return q & 8 ? -magnitude : magnitude;
}

double E4M3Value(int q) {
  const int exponent = q >> 3 & 15, mantissa = q & 7;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return q & 0x80 ? -magnitude : magnitude;
}

/// A nibble: the low ones belong to the first 16 values of 32.
int NibbleAt(const std::vector<std::byte>& b, size_t at, int i) {
  const int q = At(b, at + static_cast<size_t>(i % 16));
  return i < 16 ? q % 16 : q / 16;
}

/// Value i of kScaledNVFP4: four scales for 16 values each, whose bytes hold values i and i + 8.
double ScaledNvfp4Value(const std::vector<std::byte>& b, size_t at, int i) {
  const int group = i / 16, byte = At(b, at + 8 + static_cast<size_t>(8 * group + i % 8));
  return FloatAt(b, at) * E4M3Value(At(b, at + 4 + static_cast<size_t>(group))) *
         E2M1Value(i % 16 < 8 ? byte % 16 : byte / 16);
}

/// Value i of the block at `at`.
double LegacyValue(DType dtype, const std::vector<std::byte>& b, size_t at, int i) {
  if (dtype == DType::kMXFP4) return std::ldexp(E2M1Value(NibbleAt(b, at + 1, i)), At(b, at) - 127);
  if (dtype == DType::kScaledE4M3) return FloatAt(b, at) * E4M3Value(At(b, at + 4 + static_cast<size_t>(i)));
  if (dtype == DType::kScaledI8) return FloatAt(b, at) * static_cast<int8_t>(At(b, at + 4 + static_cast<size_t>(i)));
  const double d = HalfValue(U16At(b, at));
  if (dtype == DType::kIQ4_NL) return d * Iq4Value(NibbleAt(b, at + 2, i));
  if (dtype == DType::kQ4_Z) return d * (NibbleAt(b, at + 3, i) - At(b, at + 2));
  if (dtype == DType::kQ8_0) return d * static_cast<int8_t>(At(b, at + 2 + static_cast<size_t>(i)));
  const bool minimum = dtype == DType::kQ4_1 || dtype == DType::kQ5_1;
  const bool fifth = dtype == DType::kQ5_0 || dtype == DType::kQ5_1;
  const size_t high = at + (minimum ? 4 : 2), low = high + (fifth ? 4 : 0);
  int q = NibbleAt(b, low, i);
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
  if (dtype == DType::kIQ4_XS) {
    const int low = At(b, at + 4 + static_cast<size_t>(j / 2)) >> (4 * (j % 2)) & 15;
    const int high = U16At(b, at + 2) >> (2 * j) & 3;
    return HalfValue(U16At(b, at)) * (low + 16 * high - 32) *
           Iq4Value(NibbleAt(b, at + 8 + static_cast<size_t>(16 * j), i % 32));
  }
  const size_t pairs = at + (dtype == DType::kQ2_K ? 16 : 32) + static_cast<size_t>(i / 128 * 32 + i % 32);
  if (dtype == DType::kQ2_K) {
    const int q = At(b, pairs) >> (2 * (j % 4)) & 3, both = At(b, at + static_cast<size_t>(i / 16));
    return HalfValue(U16At(b, at + 80)) * (both % 16) * q - HalfValue(U16At(b, at + 82)) * (both / 16);
  }
  if (dtype == DType::kQ3_K) {
    const int third = At(b, at + static_cast<size_t>(i % 32)) >> j & 1,
              q = (At(b, pairs) >> (2 * (j % 4)) & 3) + 4 * third;
    const auto scales = [&](int k) { return static_cast<int>(At(b, at + 96 + static_cast<size_t>(k))); };
    const int k = i / 16, low = k < 8 ? scales(k) % 16 : scales(k - 8) / 16,
              high = scales(8 + k % 4) >> (2 * (k / 4)) & 3;
    return HalfValue(U16At(b, at + 108)) * (low + 16 * high - 32) * (q - 4);
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

double BlockValue(DType dtype, const std::vector<std::byte>& b, size_t at, int i) {
  if (dtype == DType::kScaledNVFP4) return ScaledNvfp4Value(b, at, i);
  return Traits(dtype).block_elements == 32 ? LegacyValue(dtype, b, at, i) : SuperValue(dtype, b, at, i);
}
bool IsDecodedByGolden(DType dtype) { return dtype >= DType::kIQ2_XXS && dtype <= DType::kNVFP4; }

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

std::vector<double> Normed(const std::vector<float>& x, int64_t rows, const std::vector<float>& weight,
                           const std::vector<float>* bias) {
  const size_t n = weight.size();
  std::vector<double> out(x.size());
  for (size_t begin = 0; begin < static_cast<size_t>(rows) * n; begin += n) {
    double mean = 0, var = 0;
    for (size_t i = 0; bias != nullptr && i < n; ++i) mean += x[begin + i] / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) var += std::pow(x[begin + i] - mean, 2) / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) {
      out[begin + i] = (x[begin + i] - mean) / std::sqrt(var + 1e-5) * weight[i] + (bias != nullptr ? (*bias)[i] : 0);
    }
  }
  return out;
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
    const uint32_t exponent = dtype == DType::kQ8_0 || dtype == DType::kIQ4_NL ? 6 : block == 256 ? 4 : 9;
    if (places.d >= 0) {
      PutU16(w.bytes, b * block_bytes + static_cast<size_t>(places.d),
             static_cast<uint16_t>((g() & 0x83ff) | exponent << 10));
    }
    TameBlock(dtype, b * block_bytes, g, &w.bytes);
    if (places.m >= 0) {
      PutU16(w.bytes, b * block_bytes + static_cast<size_t>(places.m),
             static_cast<uint16_t>((g() & 0x83ff) | (exponent + 2) << 10));
    }
    if (IsDecodedByGolden(dtype)) continue;
    for (size_t i = 0; i < block; ++i) {
      w.values[b * block + i] = BlockValue(dtype, w.bytes, b * block_bytes, static_cast<int>(i));
    }
  }
  if (IsDecodedByGolden(dtype)) {
    std::vector<float> row(static_cast<size_t>(cols));
    for (int64_t r = 0; r < rows; ++r) {
      ReadFileRow(w.host(), r, row.data());
      std::ranges::copy(row, w.values.begin() + r * cols);
    }
  }
  return w;
}

bool IsScaleByte(DType dtype, size_t i) {
  if (dtype == DType::kMXFP4) return i == 0;
  if (dtype == DType::kQ4_Z) return i < 3;
  if (dtype == DType::kNVFP4 || dtype == DType::kScaledE4M3 || dtype == DType::kScaledI8) return i < 4;
  if (dtype == DType::kScaledNVFP4) return i < 8;
  if (dtype == DType::kIQ1_M) return i >= 48;
  const HalfPlaces places = PlacesOf(dtype);
  const int byte = static_cast<int>(i);
  return byte == places.d || byte == places.d + 1 || (places.m >= 0 && (byte == places.m || byte == places.m + 1));
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
