// Random block-quantized weights, and the values that tiles for a GPU preserve.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cuda/linear/block_quant_layout.h"
#include "kernels/cuda/linear/block_quant_packing.h"
#include "kernels/formats/half.h"
#include "tests/kernels/reference.h"

namespace ringside::testing {

inline constexpr DType kBlockTypes[] = {
    DType::kQ4_0,    DType::kQ4_1,   DType::kQ5_0,        DType::kQ5_1,     DType::kQ8_0,
    DType::kQ4_K,    DType::kQ5_K,   DType::kQ6_K,        DType::kQ2_K,     DType::kQ3_K,
    DType::kIQ4_NL,  DType::kIQ4_XS, DType::kMXFP4,       DType::kQ4_Z,     DType::kIQ2_XXS,
    DType::kIQ3_XXS, DType::kIQ3_S,  DType::kIQ1_S,       DType::kIQ1_M,    DType::kTQ1_0,
    DType::kTQ2_0,   DType::kNVFP4,  DType::kScaledNVFP4, DType::kScaledI8, DType::kScaledE4M3};

struct PackedWeight {
  DType dtype;
  std::vector<uint8_t> tiles;
  std::vector<float> scales;  // units of rows, or scales of tiles
};

inline Result<PackedWeight> Pack(const HostTensor& host) {
  const DType dtype = cuda::BlockQuantTypeOf(host.dtype).value_or(DType::kBlockQuant8);
  const int64_t panels = cuda::PanelsDown(host.rows), bytes = cuda::PanelBytes(dtype, host.cols),
                scales = cuda::PanelScales(dtype, host.cols);
  PackedWeight out{dtype, std::vector<uint8_t>(static_cast<size_t>(panels * bytes)),
                   std::vector<float>(static_cast<size_t>(panels * scales))};
  for (int64_t p = 0; p < panels; ++p) {
    RETURN_IF_ERROR(cuda::PackPanel(host, p, out.tiles.data() + p * bytes, out.scales.data() + p * scales));
  }
  return out;
}

/// As in checkpoints, 128 x 128 values of kScaledE4M3 share a scale; adjacent scales differ, and one in 16 is 0.
inline void ShareScales(RandomWeight* w) {
  const int64_t block_bytes = Traits(w->dtype).block_bytes, blocks = w->cols / 32;
  for (int64_t i = 0; i < w->rows * blocks; ++i) {
    const int64_t down = i / blocks / 128, across = i % blocks / 4;
    const float scale =
        down % 4 == 1 && across % 4 == 2 ? 0 : static_cast<float>(3 + (2 * down + across) % 7) * 0x1p-9f;
    std::byte* to = w->bytes.data() + i * block_bytes;
    for (int64_t k = i * 32; k < (i + 1) * 32; ++k) {
      w->values[static_cast<size_t>(k)] = double{scale} * E4M3ToFloat(std::to_integer<uint8_t>(to[4 + k % 32]));
    }
    std::memcpy(to, &scale, sizeof(scale));
  }
}

/// No byte of Q8_0 or kScaledI8 is -128, which quantizers do not produce. Scales of kScaledE4M3: see ShareScales.
inline RandomWeight MakeBlocks(DType type, int64_t rows, int64_t cols, uint32_t seed) {
  RandomWeight w = MakeRandomWeight(type, rows, cols, seed);
  if (type == DType::kScaledE4M3) ShareScales(&w);
  if (type != DType::kQ8_0 && type != DType::kScaledI8) return w;
  const auto block = static_cast<size_t>(Traits(type).block_bytes);
  for (size_t i = 0; i < w.bytes.size(); ++i) {
    if (i % block >= block - 32 && w.bytes[i] == std::byte{0x80}) w.bytes[i] = std::byte{1};
  }
  return w;
}

/// As MakeBlocks, with the values of the tiles.
inline RandomWeight MakeBlockQuant(DType type, int64_t rows, int64_t cols, uint32_t seed) {
  RandomWeight w = MakeBlocks(type, rows, cols, seed);
  const PackedWeight packed = std::move(Pack(w.host()).value());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      w.values[static_cast<size_t>(r * cols + c)] = static_cast<double>(
          cuda::BlockQuantValue(packed.dtype, packed.tiles.data(), packed.scales.data(), cols, r, c));
    }
  }
  return w;
}

}  // namespace ringside::testing
