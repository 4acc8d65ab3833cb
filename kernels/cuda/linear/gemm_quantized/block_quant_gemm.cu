// y (+)= x W^T + bias for up to 1,024 rows of x and block-quantized weights (block_quant_layout.h), on compute
// capability 9.0. Bound by reading W once, and from about 64 rows on by the tensor cores. A block has 256 outputs, the
// left operand of WGMMAs, and up to 128 rows of x, the right one. A producer thread fills the pipeline stages: a
// panel's tiles by one bulk copy, x as TMA boxes. The four consumer warp groups dequantize their weights to T in
// registers, overlapped with the preceding WGMMAs; each weight is rounded once, as if it were stored in T. E4M3 values
// are not rounded: before each K tile the sums are converted from the previous tile's units to its own. If there are
// too few output tiles for the device, the CTAs of a cluster split K. The number of rows affects a row's bits through
// the choice of this kernel and the split-K factor.
//
// Two layers of the same rows, whose types differ in a mixed-type file, share one launch: each alone has too few blocks
// for the device, and its prologue and epilogue take longer than its bytes.
//
// Epilogue: bias, GELU, or SiLU(gate) * up.
#include <algorithm>

#include "kernels/cuda/linear/gemm_quantized/block_quant_gemm.cuh"

namespace ringside::cuda {
namespace {

constexpr size_t kRingBytes = 224 << 10;

/// Tiling of a kernel with up to `tile_rows` rows per M tile and `weight_bytes` per stage.
BlockQuantTiling DivideRows(int rows, int tile_rows, int weight_bytes) {
  BlockQuantTiling out;
  out.row_tiles = (rows + tile_rows - 1) / tile_rows;
  out.box_rows = (std::min(rows, tile_rows) + 7) / 8 * 8;
  out.stage_bytes = out.box_rows * kTileInputs * 2 + weight_bytes;
  out.stages = std::min(kMaxBlockQuantStages, static_cast<int>(kRingBytes / static_cast<size_t>(out.stage_bytes)));
  const int sums = static_cast<int>(sizeof(float)) * std::min(rows, tile_rows) * kBlockQuantSumsStride;
  out.barriers = (std::max(out.stages * out.stage_bytes, sums) + 7) / 8 * 8;
  return out;
}
size_t BytesOf(const BlockQuantTiling& tiling) {
  return static_cast<size_t>(tiling.barriers) + 2 * kMaxBlockQuantStages * sizeof(uint64_t);
}
CUtensorMap MapOf(const GemmArgs& args, const BlockQuantTiling& tiling) {
  return MapRows(args.dtype, args.x.data, args.x.rows, args.k, args.x.stride, tiling.box_rows);
}

template <class T, int kBits, int kN, bool kGateUp>
void LaunchTiles(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  using Kernel = BlockQuantGemm<T, kBits, kN, kGateUp>;
  const BlockQuantTiling tiling = DivideRows(static_cast<int>(args.x.rows), kN, Kernel::kWeightBytes);
  Launcher in_clusters = on;
  in_clusters.cluster = tile.split_k;
  Launch(in_clusters, BlockQuantGemmKernel<T, kBits, kN, kGateUp>, Grid(tile.blocks), Kernel::kThreads, BytesOf(tiling),
         MapOf(args, tiling), ToGemmParams(args), tiling);
}

template <class T, int kBits, int kNextBits, int kN>
void LaunchTwoTiles(const Launcher& on, const GemmArgs& args, const GemmArgs& next, const LinearPlan& plan) {
  using Kernel = BlockQuantGemm<T, kBits, kN, false>;
  const auto rows = static_cast<int>(args.x.rows);
  const BlockQuantTiling tiling = DivideRows(rows, kN, Kernel::kWeightBytes),
                         next_tiling = DivideRows(rows, kN, BlockQuantGemm<T, kNextBits, kN, false>::kWeightBytes);
  Launcher in_clusters = on;
  in_clusters.cluster = plan.tile.split_k;
  Launch(in_clusters, TwoBlockQuantGemmKernel<T, kBits, kNextBits, kN>,
         Grid(plan.tile.blocks + plan.partner_tile.blocks), Kernel::kThreads,
         std::max(BytesOf(tiling), BytesOf(next_tiling)), MapOf(args, tiling), ToGemmParams(args), tiling,
         ToGemmParams(next), next_tiling, plan.tile.blocks);
}

/// Calls body with the rows of an M tile as a compile-time constant.
template <class Body>
void WithTileRows(const LinearTile& tile, const Body& body) {
  if (tile.rows == 16) return body(std::integral_constant<int, 16>());
  if (tile.rows == 32) return body(std::integral_constant<int, 32>());
  if (tile.rows == 64) return body(std::integral_constant<int, 64>());
  body(std::integral_constant<int, 128>());
}

template <class T, int kBits>
void LaunchOfBits(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  WithTileRows(tile, [&](auto rows) {
    if (args.epilogue == LinearEpilogue::kSiluMultiply) return LaunchTiles<T, kBits, rows(), true>(on, args, tile);
    LaunchTiles<T, kBits, rows(), false>(on, args, tile);
  });
}

void CheckBlockQuant(const Launcher& on, const GemmArgs& args) {
  CHECK(on.wgmma && !args.norm && HasGroupScales(args.weight_dtype) && args.x.dtype == args.dtype);
  CHECK(CanMap(args.x.data, args.x.stride));
}

}  // namespace

void LaunchBlockQuantGemm(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  CheckBlockQuant(on, args);
  WithBits(args.weight_dtype, [&](auto bits) {
    if (args.dtype == DType::kF16) return LaunchOfBits<__half, bits()>(on, args, tile);
    LaunchOfBits<__nv_bfloat16, bits()>(on, args, tile);
  });
}

void LaunchTwoBlockQuantGemm(const Launcher& on, const GemmArgs& args, const GemmArgs& next, const LinearPlan& plan) {
  CheckBlockQuant(on, args), CheckBlockQuant(on, next);
  CHECK(HasPairKernel(args.weight_dtype, next.weight_dtype));
  WithBitsOfPair(args.weight_dtype, next.weight_dtype, [&](auto bits, auto next_bits) {
    WithTileRows(plan.tile, [&](auto rows) {
      if (args.dtype == DType::kF16) return LaunchTwoTiles<__half, bits(), next_bits(), rows()>(on, args, next, plan);
      LaunchTwoTiles<__nv_bfloat16, bits(), next_bits(), rows()>(on, args, next, plan);
    });
  });
}

}  // namespace ringside::cuda
