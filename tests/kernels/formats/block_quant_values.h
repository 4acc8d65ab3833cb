// Random block-quantized weights, and the values that tiles for a GPU preserve.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cuda/linear/block_quant_layout.h"
#include "kernels/cuda/linear/block_quant_packing.h"
#include "tests/kernels/reference.h"

namespace ringside::testing {

inline constexpr DType kBlockTypes[] = {
    DType::kQ4_0,  DType::kQ4_1,  DType::kQ5_0,    DType::kQ5_1,    DType::kQ8_0,        DType::kQ4_K,
    DType::kQ5_K,  DType::kQ6_K,  DType::kQ2_K,    DType::kQ3_K,    DType::kIQ4_NL,      DType::kIQ4_XS,
    DType::kMXFP4, DType::kQ4_Z,  DType::kIQ2_XXS, DType::kIQ3_XXS, DType::kIQ3_S,       DType::kIQ1_S,
    DType::kIQ1_M, DType::kTQ1_0, DType::kTQ2_0,   DType::kNVFP4,   DType::kScaledNVFP4, DType::kScaledI8};

struct PackedWeight {
  DType dtype;
  std::vector<uint8_t> tiles;
  std::vector<float> units;
};

inline Result<PackedWeight> Pack(const HostTensor& host) {
  const DType dtype = cuda::BlockQuantTypeOf(host.dtype).value_or(DType::kBlockQuant8);
  const int64_t panels = cuda::PanelsDown(host.rows), bytes = cuda::PanelBytes(dtype, host.cols);
  PackedWeight out{dtype, std::vector<uint8_t>(static_cast<size_t>(panels * bytes)),
                   std::vector<float>(static_cast<size_t>(panels * cuda::kPanelRows))};
  for (int64_t p = 0; p < panels; ++p) {
    RETURN_IF_ERROR(cuda::PackPanel(host, p, out.tiles.data() + p * bytes, out.units.data() + p * cuda::kPanelRows));
  }
  return out;
}

/// No byte of Q8_0 or kScaledI8 is -128, which quantizers do not produce.
inline RandomWeight MakeBlocks(DType type, int64_t rows, int64_t cols, uint32_t seed) {
  RandomWeight w = MakeRandomWeight(type, rows, cols, seed);
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
          cuda::BlockQuantValue(packed.dtype, packed.tiles.data(), packed.units.data(), cols, r, c));
    }
  }
  return w;
}

}  // namespace ringside::testing
