#include "kernels/formats/file_formats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "kernels/formats/block_bytes.h"
#include "kernels/formats/code_values.h"
#include "kernels/formats/codebook_blocks.h"
#include "kernels/formats/half.h"
#include "kernels/formats/row_quantization.h"

namespace ringside {
namespace {

void ReadNibbles(const uint8_t* p, uint8_t* q) {
  for (int i = 0; i < 16; ++i) q[i] = p[i] & 15, q[i + 16] = p[i] >> 4;
}

void ReadFifthBits(const uint8_t* p, uint8_t* q) {
  const uint32_t bits = ReadU32(p);
  for (int i = 0; i < 32; ++i) q[i] |= ((bits >> i) & 1) << 4;
}

/// The eight 6-bit scales and minima of Q4_K and Q5_K, packed in 12 bytes.
void ReadSixBitScales(const uint8_t* p, int64_t j, uint8_t* out) {
  if (j < 4) {
    out[0] = p[j] & 63, out[1] = p[j + 4] & 63;
  } else {
    out[0] = static_cast<uint8_t>((p[j + 4] & 15) | (p[j - 4] >> 6) << 4);
    out[1] = static_cast<uint8_t>((p[j + 4] >> 4) | (p[j] >> 6) << 4);
  }
}

/// Block j (0..7) of a super-block of Q4_K or Q5_K.
void ReadK(const uint8_t* p, int64_t j, bool fifth, FileBlock* out) {
  out->d = ReadU16(p), out->m = ReadU16(p + 2);
  ReadSixBitScales(p + 4, j, out->scale);
  const uint8_t* low = p + (fifth ? 48 : 16) + 32 * (j / 2);
  for (int i = 0; i < 32; ++i) {
    out->q[i] = (j % 2 == 0 ? low[i] & 15 : low[i] >> 4);
    if (fifth) out->q[i] |= ((p[16 + i] >> j) & 1) << 4;
  }
}

void ReadQ6K(const uint8_t* p, int64_t j, FileBlock* out) {
  const int64_t half = j / 4, part = j % 4;  // 128 values per half, 32 per part
  const uint8_t* low = p + 64 * half + 32 * (part % 2);
  const uint8_t* high = p + 128 + 32 * half;
  for (int i = 0; i < 32; ++i) {
    out->q[i] = static_cast<uint8_t>((part < 2 ? low[i] & 15 : low[i] >> 4) | ((high[i] >> (2 * part)) & 3) << 4);
  }
  out->scale[0] = p[192 + 2 * j], out->scale[1] = p[192 + 2 * j + 1];
  out->d = ReadU16(p + 208);
}

/// Two bits of each of 256 values: 128 values per half, 32 per part.
void ReadBitPairs(const uint8_t* p, int64_t j, uint8_t* q) {
  for (int i = 0; i < 32; ++i) q[i] = (p[32 * (j / 4) + i] >> (2 * (j % 4))) & 3;
}

void ReadQ2K(const uint8_t* p, int64_t j, FileBlock* out) {
  ReadBitPairs(p + 16, j, out->q);
  out->scale[0] = p[2 * j], out->scale[1] = p[2 * j + 1];
  out->d = ReadU16(p + 80), out->m = ReadU16(p + 82);
}

/// Scale k (0..15) of Q3_K: four low bits in 8 bytes, two high ones in 4, and an offset of 32.
uint8_t ReadQ3Scale(const uint8_t* p, int64_t k) {
  const int low = (p[k % 8] >> (k < 8 ? 0 : 4)) & 15, high = (p[8 + k % 4] >> (2 * (k / 4))) & 3;
  return static_cast<uint8_t>((low | high << 4) - 32);
}

void ReadQ3K(const uint8_t* p, int64_t j, FileBlock* out) {
  ReadBitPairs(p + 32, j, out->q);
  for (int i = 0; i < 32; ++i) out->q[i] |= ((p[i] >> j) & 1) << 2;
  for (int64_t h = 0; h < 2; ++h) out->scale[h] = ReadQ3Scale(p + 96, 2 * j + h);
  out->d = ReadU16(p + 108);
}

void ReadIq4Xs(const uint8_t* p, int64_t j, FileBlock* out) {
  out->d = ReadU16(p);
  const int low = (p[4 + j / 2] >> (4 * (j % 2))) & 15, high = (ReadU16(p + 2) >> (2 * j)) & 3;
  out->scale[0] = static_cast<uint8_t>((low | high << 4) - 32);
  ReadNibbles(p + 8 + 16 * j, out->q);
}

/// Ternary values t = 0, 1, 2 are stored as Q3_K's d (q - 4) with q = t + 3.
constexpr uint8_t kTernaryOffset = 3;

/// Digit `digit` of a byte that holds a fraction of 256 in base 3.
uint8_t Digit(uint8_t fraction, int digit) {
  static constexpr uint8_t kPowers[] = {1, 3, 9, 27, 81};
  return static_cast<uint8_t>(static_cast<uint8_t>(fraction * kPowers[digit]) * 3 >> 8);
}
void ReadTq1(const uint8_t* p, int64_t j, FileBlock* out) {
  for (int i = 0; i < 32; ++i) {
    const int at = static_cast<int>(32 * j) + i;  // five digits in each of 32 and of 16 bytes, four in each of 4
    out->q[i] = at < 160   ? Digit(p[at % 32], at / 32)
                : at < 240 ? Digit(p[32 + at % 16], (at - 160) / 16)
                           : Digit(p[48 + at % 4], (at - 240) / 4);
    out->q[i] += kTernaryOffset;
  }
  out->scale[0] = out->scale[1] = 1;
  out->d = ReadU16(p + 52);
}
void ReadTq2(const uint8_t* p, int64_t j, FileBlock* out) {
  ReadBitPairs(p, j, out->q);
  for (uint8_t& q : out->q) q += kTernaryOffset;
  out->scale[0] = out->scale[1] = 1;
  out->d = ReadU16(p + 64);
}

/// The low and high halves of a float32 at p.
void ReadFloatScale(const uint8_t* p, FileBlock* out) { out->d = ReadU16(p), out->m = ReadU16(p + 2); }

/// Block j (0 or 1) of four scales at p for 16 values each, followed by the values' codes.
void ReadE2M1Pair(const uint8_t* p, int64_t j, FileBlock* out) {
  for (int64_t h = 0; h < 2; ++h) {
    out->scale[h] = p[2 * j + h];
    const uint8_t* codes = p + 4 + 8 * (2 * j + h);
    for (int i = 0; i < 8; ++i) out->q[16 * h + i] = codes[i] & 15, out->q[16 * h + 8 + i] = codes[i] >> 4;
  }
}
void ReadNvfp4(const uint8_t* p, int64_t j, FileBlock* out) {
  ReadE2M1Pair(p, j, out);
  out->d = 0, out->m = 0x3f80;  // 1
}
void ReadScaledNvfp4(const uint8_t* p, int64_t j, FileBlock* out) {
  ReadFloatScale(p, out);
  ReadE2M1Pair(p + 4, j, out);
}

using BlockReaders = std::array<BlockReader, static_cast<size_t>(DType::kI8)>;

BlockReaders MakeReaders() {
  BlockReaders readers{};
  const auto set = [&](DType dtype, BlockReader reader) { readers[static_cast<size_t>(dtype)] = reader; };
  set(DType::kQ8_0, [](const uint8_t* p, int64_t, FileBlock* out) {
    out->d = ReadU16(p);
    for (int i = 0; i < 32; ++i) out->q[i] = p[2 + i] ^ 0x80;
  });
  set(DType::kQ4_0, [](const uint8_t* p, int64_t, FileBlock* out) { out->d = ReadU16(p), ReadNibbles(p + 2, out->q); });
  set(DType::kQ4_1, [](const uint8_t* p, int64_t, FileBlock* out) {
    out->d = ReadU16(p), out->m = ReadU16(p + 2), ReadNibbles(p + 4, out->q);
  });
  set(DType::kQ5_0, [](const uint8_t* p, int64_t, FileBlock* out) {
    out->d = ReadU16(p), ReadNibbles(p + 6, out->q), ReadFifthBits(p + 2, out->q);
  });
  set(DType::kQ5_1, [](const uint8_t* p, int64_t, FileBlock* out) {
    out->d = ReadU16(p), out->m = ReadU16(p + 2), ReadNibbles(p + 8, out->q), ReadFifthBits(p + 4, out->q);
  });
  set(DType::kQ4_K, [](const uint8_t* p, int64_t j, FileBlock* out) { ReadK(p, j, false, out); });
  set(DType::kQ5_K, [](const uint8_t* p, int64_t j, FileBlock* out) { ReadK(p, j, true, out); });
  set(DType::kQ6_K, ReadQ6K);
  set(DType::kQ2_K, ReadQ2K);
  set(DType::kQ3_K, ReadQ3K);
  set(DType::kIQ4_NL,
      [](const uint8_t* p, int64_t, FileBlock* out) { out->d = ReadU16(p), ReadNibbles(p + 2, out->q); });
  set(DType::kIQ4_XS, ReadIq4Xs);
  set(DType::kMXFP4,
      [](const uint8_t* p, int64_t, FileBlock* out) { out->scale[0] = p[0], ReadNibbles(p + 1, out->q); });
  set(DType::kQ4_Z, [](const uint8_t* p, int64_t, FileBlock* out) {
    out->d = ReadU16(p), out->scale[0] = p[2], ReadNibbles(p + 3, out->q);
  });
  set(DType::kScaledE4M3,
      [](const uint8_t* p, int64_t, FileBlock* out) { ReadFloatScale(p, out), std::memcpy(out->q, p + 4, 32); });
  set(DType::kTQ1_0, ReadTq1);
  set(DType::kTQ2_0, ReadTq2);
  set(DType::kNVFP4, ReadNvfp4);
  set(DType::kScaledNVFP4, ReadScaledNvfp4);
  set(DType::kScaledI8, [](const uint8_t* p, int64_t, FileBlock* out) {
    ReadFloatScale(p, out);
    for (int i = 0; i < 32; ++i) out->q[i] = p[4 + i] ^ 0x80;
  });
  for (const CodebookReader& reader : CodebookReaders()) set(reader.dtype, reader.read);
  return readers;
}

/// Half of 2^(exponent - 127), the scale of kMxfp4Values.
float HalfOfPower(uint8_t exponent) {
  return BitsToFloat(exponent < 2 ? 0x00200000u << exponent : (exponent - 1u) << 23);
}

/// The float32 scale of a block.
float ScaleOf(const FileBlock& block) { return BitsToFloat(block.d | static_cast<uint32_t>(block.m) << 16); }
bool IsNaNOfE4M3(uint8_t q) { return (q & 0x7f) == 0x7f; }

int64_t InputOf(const HostTensor& host, int64_t c) {
  return host.order.empty() ? c : host.order[static_cast<size_t>(c)];
}

constexpr float kLargestE2M1 = 6;
constexpr uint8_t kLargestE4M3Bits = 0x7e;  // higher ones are NaN or negative
constexpr uint8_t kLargestExponent = 252;   // 12 times half of 2^126 is the largest that fits in float32

}  // namespace

void ReadFileBlock(DType dtype, const uint8_t* row, int64_t b, FileBlock* out) {
  static const BlockReaders readers = MakeReaders();
  const DTypeTraits& traits = Traits(dtype);
  const int64_t blocks = traits.block_elements / 32;
  readers[static_cast<size_t>(dtype)](row + b / blocks * traits.block_bytes, b % blocks, out);
}

bool HasFiniteScales(DType dtype, const FileBlock& block) {
  const auto finite = [](uint16_t half) { return (half & 0x7c00) != 0x7c00; };
  switch (Traits(dtype).form) {
    case DType::kMXFP4:
      return block.scale[0] <= kLargestExponent;
    case DType::kScaledE4M3:
      return std::isfinite(ScaleOf(block) * kLargestE4M3) && std::ranges::none_of(block.q, IsNaNOfE4M3);
    case DType::kScaledI8:
      return std::isfinite(ScaleOf(block) * 128);
    case DType::kScaledNVFP4:
      return std::isfinite(ScaleOf(block) * (kLargestE4M3 * kLargestE2M1)) &&
             std::ranges::all_of(block.scale, [](uint8_t scale) { return scale <= kLargestE4M3Bits; });
    default:
      return finite(block.d) && finite(block.m);
  }
}

float FileBlockValue(DType dtype, const FileBlock& in, int i) {
  const float d = HalfToFloat(in.d), m = HalfToFloat(in.m);
  const int q = in.q[i];
  const uint8_t scale = in.scale[0], half_scale = in.scale[i / 16];  // of 32 values, of 16 values
  switch (Traits(dtype).form) {
    case DType::kQ8_0:
      return d * static_cast<float>(q - 128);
    case DType::kQ4_0:
      return d * static_cast<float>(q - 8);
    case DType::kQ5_0:
      return d * static_cast<float>(q - 16);
    case DType::kQ4_1:
    case DType::kQ5_1:
      return d * static_cast<float>(q) + m;
    case DType::kQ6_K:
      return d * static_cast<float>(static_cast<int8_t>(half_scale)) * static_cast<float>(q - 32);
    case DType::kQ2_K:
      return d * static_cast<float>(half_scale & 15) * static_cast<float>(q) - m * static_cast<float>(half_scale >> 4);
    case DType::kQ3_K:
      return d * static_cast<float>(static_cast<int8_t>(half_scale)) * static_cast<float>(q - 4);
    case DType::kIQ4_NL:
      return d * static_cast<float>(kIq4Values[q]);
    case DType::kIQ4_XS:
      return d * static_cast<float>(static_cast<int8_t>(scale)) * static_cast<float>(kIq4Values[q]);
    case DType::kMXFP4:
      return HalfOfPower(scale) * static_cast<float>(kMxfp4Values[q]);
    case DType::kQ4_Z:
      return d * static_cast<float>(q - scale);
    case DType::kScaledE4M3:
      return ScaleOf(in) * E4M3ToFloat(in.q[i]);
    case DType::kScaledI8:
      return ScaleOf(in) * static_cast<float>(q - 128);
    case DType::kScaledNVFP4:
      return ScaleOf(in) * (0.5f * E4M3ToFloat(half_scale) * static_cast<float>(kMxfp4Values[q]));
    case DType::kQ4_K:
    case DType::kQ5_K:
      return d * static_cast<float>(scale) * static_cast<float>(q) - m * static_cast<float>(in.scale[1]);
    default: {
      const CodeForm& codes = *FindCodeForm(Traits(dtype).form);
      return d * static_cast<float>(codes.has_halves ? half_scale : scale) * static_cast<float>(codes.values[q]) *
             codes.factor;
    }
  }
}

bool HasScalePerRow(const HostTensor& host) {
  const size_t row_bytes = static_cast<size_t>(StorageBytes(host.dtype, host.cols));
  for (size_t row = 0; row < host.bytes.size(); row += row_bytes) {
    const std::byte* first = host.bytes.data() + row;
    for (size_t b = 0; b < row_bytes; b += static_cast<size_t>(Traits(host.dtype).block_bytes)) {
      if (std::memcmp(first, first + b, sizeof(float)) != 0) return false;
    }
  }
  return true;
}

float ReadE4M3Row(const HostTensor& host, int64_t row, uint8_t* q) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(host.bytes.data()) + row * StorageBytes(host.dtype, host.cols);
  FileBlock first{}, block{};
  ReadFileBlock(host.dtype, bytes, 0, &first);
  bool sound = true;
  for (int64_t b = 0; b < host.cols / 32; ++b) {
    ReadFileBlock(host.dtype, bytes, b, &block);
    sound &= block.d == first.d && block.m == first.m && HasFiniteScales(host.dtype, block);
    std::copy_n(block.q, 32, q + 32 * b);
  }
  return sound ? ScaleOf(first) : std::numeric_limits<float>::quiet_NaN();
}

float FloatValue(DType dtype, const uint8_t* p) {
  if (dtype == DType::kF32) return BitsToFloat(ReadU32(p));
  return dtype == DType::kF16 ? HalfToFloat(ReadU16(p)) : Bf16ToFloat(ReadU16(p));
}

Status CheckWeight(const HostTensor& host) {
  if (!IsFileType(host.dtype)) return InvalidArgument("unknown element type");
  const DTypeTraits& traits = Traits(host.dtype);
  const std::string shape =
      std::to_string(host.rows) + " x " + std::to_string(host.cols) + " " + std::string(traits.name);
  constexpr int64_t kMaxDim = int64_t{1} << 31;
  if (host.rows <= 0 || host.cols <= 0 || host.rows > kMaxDim || host.cols > kMaxDim) {
    return InvalidArgument("invalid weight shape " + shape);
  }
  if (host.cols % traits.block_elements != 0) {
    return InvalidArgument("weight " + shape + ": columns must be a multiple of " +
                           std::to_string(traits.block_elements));
  }
  const int64_t row_bytes = StorageBytes(host.dtype, host.cols);
  if (host.bytes.size() % static_cast<size_t>(row_bytes) != 0 ||
      static_cast<int64_t>(host.bytes.size() / static_cast<size_t>(row_bytes)) != host.rows) {
    return InvalidArgument("weight " + shape + " does not have " + std::to_string(host.bytes.size()) + " bytes");
  }
  if (!host.order.empty() && std::ssize(host.order) != host.cols) {
    return InvalidArgument("weight " + shape + " does not have " + std::to_string(host.order.size()) + " inputs");
  }
  return Status::Ok();
}

void ReadFileRow(const HostTensor& host, int64_t row, float* y) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(host.bytes.data()) + row * StorageBytes(host.dtype, host.cols);
  if (!IsQuantized(host.dtype)) {
    const int64_t element = Traits(host.dtype).block_bytes;
    for (int64_t c = 0; c < host.cols; ++c) y[InputOf(host, c)] = FloatValue(host.dtype, bytes + c * element);
    return;
  }
  FileBlock block{};
  for (int64_t b = 0; b < host.cols / 32; ++b) {
    ReadFileBlock(host.dtype, bytes, b, &block);
    for (int i = 0; i < 32; ++i) y[InputOf(host, 32 * b + i)] = FileBlockValue(host.dtype, block, i);
  }
}

}  // namespace ringside
