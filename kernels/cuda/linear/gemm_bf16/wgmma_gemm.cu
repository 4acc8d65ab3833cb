// y (+)= x W^T + bias for 5 to 64 rows of x (fewer where gemv.cu does not apply), on compute capability 9.0,
// except for the narrow matrices that small_gemm.cu takes. Bound by reading W once. The rows are the left operand of
// WGMMAs, 8 to 128 outputs the right one. A producer thread copies boxes of 64 inputs of both into pipeline stages by
// TMA; weights need not wait for the preceding kernel. Small matrices are tiled over the outputs; long rows are also
// split over the CTAs of a cluster (split-K): the more outputs a block has, the less often x is read and the fewer
// WGMMAs depend on each other. Partial sums are reduced through DSMEM in a fixed order. So the number of rows affects a
// row's bits only through the choice of this kernel.
//
// Measured on an H200 including norm and activation, with 8 and 32 rows: a layer of an 8B model takes 112 to 115 and
// 116 to 120 us (3.0 to 4.0 TB/s; cuBLAS 124 and 129), of a 1B model 42 and 44, the head of GPT-2 26 and 35. About 3 us
// of every layer are fixed cost. (Slower: more warp groups per block, L2 prefetch of the next weights, any extra work
// for the producer thread.)
//
// Epilogue: bias, GELU, or SiLU(gate) * up.
#include <algorithm>

#include "kernels/cuda/linear/gemm_bf16/wgmma_gemm.cuh"
#include "kernels/cuda/linear/linear_sizes.h"

namespace ringside::cuda {
namespace {

template <class T, int kN, bool kGateUp>
void LaunchTiles(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  using Kernel = WgmmaGemm<T, kN, kGateUp>;
  WgmmaGemmParams a = {};
  a.chunks = (args.k + kBoxColumns - 1) / kBoxColumns;
  a.tiles = (args.total + kN - 1) / kN;
  const int clusters = tile.blocks / tile.split_k, waves = (a.tiles + clusters - 1) / clusters;
  a.total = args.total, a.rows = static_cast<int>(args.x.rows);
  const int box_rows = (a.rows + 7) / 8 * 8;
  a.stage_bytes = Kernel::kWeightBytes + box_rows * kBoxColumns * 2;
  const size_t others = Kernel::OtherBytes(a.rows);
  const int max_stages = static_cast<int>((tile.shared_bytes - others) / static_cast<size_t>(a.stage_bytes));
  a.stages = std::min({kWgmmaGemmStages, max_stages, waves * ((a.chunks + tile.split_k - 1) / tile.split_k)});
  a.bias = args.bias;
  a.y = args.y.data, a.y_dtype = args.y.dtype, a.y_stride = args.y.stride;
  a.fours = AllowsFloat4(args.y) && Aligned(args.bias);
  a.accumulate = args.accumulate, a.epilogue = args.epilogue;
  a.product = args.product.data, a.product_stride = args.product.stride;
  const CUtensorMap w = kGateUp ? MapGateUp(args.dtype, args.weights[0], args.total, args.k, kN)
                                : MapRows(args.dtype, args.weights[0], args.total, args.k, args.k, kN);
  const CUtensorMap x = MapRows(args.dtype, args.x.data, args.x.rows, args.k, args.x.stride, box_rows);
  Launcher in_clusters = on;
  in_clusters.cluster = tile.split_k;
  // At least the amount that limits an SM to two blocks; with more, blocks are distributed unevenly.
  const size_t shared = std::max(kTwoBlocksLeast, static_cast<size_t>(a.stages * a.stage_bytes) + others);
  Launch(in_clusters, WgmmaGemmKernel<T, kN, kGateUp>, Grid(tile.blocks), kWgmmaGemmThreads, shared, w, x, a);
}

template <class T, bool kGateUp>
void LaunchOutputs(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  switch (tile.outputs) {
    case 16:
      return LaunchTiles<T, 16, kGateUp>(on, args, tile);
    case 32:
      return LaunchTiles<T, 32, kGateUp>(on, args, tile);
    case 48:
      return LaunchTiles<T, 48, kGateUp>(on, args, tile);
    case 64:
      return LaunchTiles<T, 64, kGateUp>(on, args, tile);
    case 96:
      return LaunchTiles<T, 96, kGateUp>(on, args, tile);
    case 112:
      return LaunchTiles<T, 112, kGateUp>(on, args, tile);
    case 128:
      return LaunchTiles<T, 128, kGateUp>(on, args, tile);
    default:
      if constexpr (!kGateUp) {
        if (tile.outputs == 8) return LaunchTiles<T, 8, false>(on, args, tile);
        LaunchTiles<T, 24, false>(on, args, tile);
      }
  }
}

template <class T>
void LaunchOfType(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  if (args.epilogue == LinearEpilogue::kSiluMultiply) return LaunchOutputs<T, true>(on, args, tile);
  LaunchOutputs<T, false>(on, args, tile);
}

/// Whether the matrices are contiguous in memory.
bool AreContiguous(const GemmArgs& args) {
  int64_t before = 0;
  for (int i = 0; i < GemmArgs::kMaxWeights && args.outputs[i] > 0; ++i) {
    if (args.weights[i] != static_cast<const uint16_t*>(args.weights[0]) + before * args.k) return false;
    before += args.outputs[i];
  }
  return true;
}

}  // namespace

bool HasWgmmaKernels() {
#ifdef RINGSIDE_SM90A
  return true;
#else
  return false;
#endif
}

void LaunchWgmmaGemm(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  CHECK(on.wgmma && !args.norm && args.x.rows <= kMaxWgmmaGemmRows && args.weight_dtype == args.dtype);
  CHECK(CanMap(args.weights[0], args.k) && AreContiguous(args) && CanMap(args.x.data, args.x.stride));
  CHECK(args.x.dtype == args.dtype && (!args.accumulate || args.y.dtype == DType::kF32));
  if (args.epilogue == LinearEpilogue::kSiluMultiply) {
    CHECK(args.total % 16 == 0 && !args.accumulate && args.product.dtype == args.dtype);
    CHECK(Aligned(args.bias) && AllowsFloat4(args.y) && AllowsFloat4(args.product));
  }
  if (args.dtype == DType::kF16) return LaunchOfType<__half>(on, args, tile);
  LaunchOfType<__nv_bfloat16>(on, args, tile);
}

}  // namespace ringside::cuda
