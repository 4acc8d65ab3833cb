// Builds the blocks of packed matrices (kernels/tensor.h) from their parts.
#include <cstring>

#include "engine/files/packed_joins.h"
#include "kernels/formats/half.h"

namespace ringside {
namespace {

using PartsKind = PackedParts::Kind;

constexpr int kAwqPlaces[] = {0, 4, 1, 5, 2, 6, 3, 7};  // place of output i among the eight of a word

uint32_t WordAt(std::span<const std::byte> bytes, int64_t i) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + static_cast<size_t>(i) * sizeof(word), sizeof(word));
  return word;
}
int Nibble(uint32_t word, int64_t place) { return static_cast<int>(word >> (4 * place) & 15); }
int ByteAt(std::span<const std::byte> bytes, int64_t i) { return std::to_integer<int>(bytes[static_cast<size_t>(i)]); }

/// The float32 scale of an output and an input (or its group, if inputs are grouped already).
float ScaleAt(const PackedParts& parts, int64_t row, int64_t scale_col) {
  const int64_t per_scale = parts.block.outputs == 0 ? parts.matrix_rows : parts.block.outputs;
  const int64_t down = (parts.matrix_rows + per_scale - 1) / per_scale;
  const int64_t scale_row = row / parts.matrix_rows * down + row % parts.matrix_rows / per_scale;
  return parts.float_scales[static_cast<size_t>(scale_row * parts.scale_cols + scale_col)];
}

/// Packs a block's integers two to a byte, i and i + 16.
template <class At>
void PutNibbles(const At& at, std::byte* to) {
  for (int i = 0; i < 16; ++i) to[i] = static_cast<std::byte>(at(i) | at(i + 16) << 4);
}

void MakeMxfp4Blocks(const PackedParts& parts, std::byte* to) {
  for (size_t b = 0; b < parts.scales.size(); ++b, to += 17) {
    const std::byte* from = parts.integers.data() + 16 * b;
    to[0] = parts.scales[b];
    PutNibbles([&](int i) { return std::to_integer<int>(from[i / 2]) >> (4 * (i % 2)) & 15; }, to + 1);
  }
}

/// 64 values: the factor, four scales, and for each scale eight bytes with values i and i + 8.
void MakeNvfp4Blocks(const PackedParts& parts, std::byte* to) {
  const std::byte* from = parts.integers.data();
  for (size_t b = 0; b < parts.scales.size() / 4; ++b, to += 40) {
    std::memcpy(to, parts.float_scales.data(), 4);
    std::memcpy(to + 4, parts.scales.data() + 4 * b, 4);
    for (int group = 0; group < 4; ++group, from += 8) {
      const auto code = [&](int i) { return std::to_integer<int>(from[i / 2]) >> (4 * (i % 2)) & 15; };
      for (int i = 0; i < 8; ++i) to[8 + 8 * group + i] = static_cast<std::byte>(code(i) | code(i + 8) << 4);
    }
  }
}

/// GGUF's blocks, each after its factor.
void MakeScaledBlocks(const PackedParts& parts, int64_t rows, int64_t cols, std::byte* to) {
  constexpr int64_t kFileBytes = 36;
  const std::byte* from = parts.integers.data();
  for (int64_t row = 0; row < rows; ++row) {
    const float factor = ScaleAt(parts, row, 0);
    for (int64_t b = 0; b < cols / 64; ++b, from += kFileBytes, to += sizeof(factor) + kFileBytes) {
      std::memcpy(to, &factor, sizeof(factor));
      std::memcpy(to + sizeof(factor), from, kFileBytes);
    }
  }
}

void MakeE4M3Blocks(const PackedParts& parts, int64_t rows, int64_t cols, std::byte* to) {
  const std::byte* from = parts.integers.data();
  const int64_t per_scale = parts.block.inputs == 0 ? cols : parts.block.inputs;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t b = 0; b < cols / kBlockUnit; ++b, from += kBlockUnit, to += sizeof(float) + kBlockUnit) {
      const float scale = ScaleAt(parts, row, b * kBlockUnit / per_scale);
      std::memcpy(to, &scale, sizeof(scale));
      std::memcpy(to + sizeof(scale), from, kBlockUnit);
    }
  }
}

/// Block by block, because the outputs of an input are adjacent in some files. put_scale writes the bytes before the
/// integers.
template <class PutScale, class PutIntegers>
void MakeGroupedBlocks(const PackedParts& parts, DType dtype, int64_t rows, int64_t cols, const PutScale& put_scale,
                       const PutIntegers& put_integers, std::byte* blocks) {
  const int64_t row_bytes = StorageBytes(dtype, cols), block_bytes = Traits(dtype).block_bytes;
  for (int64_t b = 0; b < cols / kBlockUnit; ++b) {
    const int64_t group = parts.block_groups[static_cast<size_t>(b)];
    for (int64_t row = 0; row < rows; ++row) {
      std::byte* to = blocks + row * row_bytes + b * block_bytes;
      put_integers(b, group, row, to + put_scale(group, row, to));
    }
  }
}

int64_t InputAt(const PackedParts& parts, int64_t c) {
  return parts.order.empty() ? c : parts.order[static_cast<size_t>(c)];
}

/// kQ4_Z of AWQ and GPTQ.
template <class IntegerAt, class ZeroAt>
void MakeZeroPointBlocks(const PackedParts& parts, int64_t rows, int64_t cols, const IntegerAt& integer_at,
                         const ZeroAt& zero_at, std::byte* blocks) {
  const auto put_scale = [&](int64_t group, int64_t row, std::byte* to) {
    std::memcpy(to, parts.scales.data() + 2 * (group * rows + row), 2);
    to[2] = static_cast<std::byte>(parts.zeros.empty() ? 8 : zero_at(group, row));
    return 3;
  };
  const auto put_integers = [&](int64_t b, int64_t, int64_t row, std::byte* to) {
    PutNibbles([&](int i) { return integer_at(InputAt(parts, b * kBlockUnit + i), row); }, to);
  };
  MakeGroupedBlocks(parts, DType::kQ4_Z, rows, cols, put_scale, put_integers, blocks);
}

/// kQ4_Z or kScaledI8 of compressed-tensors.
void MakeIntBlocks(const PackedParts& parts, DType dtype, int64_t rows, int64_t cols, std::byte* blocks) {
  const auto nibble = [&](int64_t c, int64_t row) {
    return Nibble(WordAt(parts.integers, row * (cols / 8) + c / 8), c % 8);
  };
  const auto zero = [&](int64_t group, int64_t row) {
    return parts.zeros.empty() ? 8 : Nibble(WordAt(parts.zeros, row / 8 * parts.scale_cols + group), row % 8);
  };
  const auto put_scale = [&](int64_t group, int64_t row, std::byte* to) {
    const float scale = ScaleAt(parts, row, group);
    if (dtype == DType::kScaledI8) {
      std::memcpy(to, &scale, sizeof(scale));
      return 4;
    }
    const uint16_t half = FloatToHalf(scale);
    std::memcpy(to, &half, sizeof(half));
    to[2] = static_cast<std::byte>(zero(group, row));
    return 3;
  };
  const auto put_integers = [&](int64_t b, int64_t group, int64_t row, std::byte* to) {
    const auto input = [&](int i) { return InputAt(parts, b * kBlockUnit + i); };
    if (dtype == DType::kQ4_Z) return PutNibbles([&](int i) { return nibble(input(i), row); }, to);
    for (int i = 0; i < kBlockUnit; ++i) {
      const int64_t c = input(i);
      to[i] = static_cast<std::byte>(parts.kind == PartsKind::kInt4   ? nibble(c, row) - zero(group, row)
                                     : parts.kind == PartsKind::kInt8 ? ByteAt(parts.integers, row * cols + c) ^ 0x80
                                                                      : ByteAt(parts.integers, row * cols + c));
    }
  };
  MakeGroupedBlocks(parts, dtype, rows, cols, put_scale, put_integers, blocks);
}

}  // namespace

void MakeBlocks(const FileTensor& tensor, std::vector<std::byte>* blocks) {
  const PackedParts& parts = *tensor.packed;
  const int64_t rows = tensor.data.rows, cols = tensor.data.cols;
  blocks->resize(static_cast<size_t>(StorageBytes(tensor.data.dtype, rows * cols)));
  std::byte* to = blocks->data();
  switch (parts.kind) {
    case PartsKind::kMxfp4:
      return MakeMxfp4Blocks(parts, to);
    case PartsKind::kNvfp4:
      return MakeNvfp4Blocks(parts, to);
    case PartsKind::kGgufNvfp4:
      return MakeScaledBlocks(parts, rows, cols, to);
    case PartsKind::kE4M3:
      return MakeE4M3Blocks(parts, rows, cols, to);
    case PartsKind::kInt4:
    case PartsKind::kInt8:
    case PartsKind::kPlainInt8:
      return MakeIntBlocks(parts, tensor.data.dtype, rows, cols, to);
    case PartsKind::kAwq: {
      const auto at = [&](std::span<const std::byte> words, int64_t i, int64_t row) {
        return Nibble(WordAt(words, i * (rows / 8) + row / 8), kAwqPlaces[row % 8]);
      };
      return MakeZeroPointBlocks(
          parts, rows, cols, [&](int64_t input, int64_t row) { return at(parts.integers, input, row); },
          [&](int64_t group, int64_t row) { return at(parts.zeros, group, row); }, to);
    }
    case PartsKind::kGptq:
      return MakeZeroPointBlocks(
          parts, rows, cols,
          [&](int64_t input, int64_t row) { return Nibble(WordAt(parts.integers, input / 8 * rows + row), input % 8); },
          [&](int64_t group, int64_t row) {
            const int stored = Nibble(WordAt(parts.zeros, group * (rows / 8) + row / 8), row % 8);
            return (stored + parts.zero_offset) & 15;
          },
          to);
  }
}

}  // namespace ringside
