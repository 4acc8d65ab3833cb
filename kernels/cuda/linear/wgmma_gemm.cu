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

#include "kernels/cuda/linear/wgmma_gemm.cuh"

namespace ringside::cuda {
namespace {

constexpr int kMaxWgmmaGemmRows = 64;
// Shared memory of a block alone on an SM, and of one of two blocks on an SM. Below kTwoBlocksLeast three would fit.
constexpr size_t kOneBlockBytes = 224 << 10, kTwoBlockBytes = 110 << 10, kTwoBlocksLeast = 77 << 10;
constexpr int kShortRow = 768;  // inputs; too short for split-K
constexpr int kNarrow = 1024;   // inputs or outputs

/// Tiling: `outputs` per tile, `cluster` CTAs that split K, and at most `max_clusters` clusters on the device.
struct Tiling {
  int outputs, cluster, max_clusters;
  size_t bytes;
};

int TilesOf(const GemmArgs& args, int outputs) { return (args.total + outputs - 1) / outputs; }

Tiling ChooseTiling(const Launcher& on, const GemmArgs& args) {
  const int processors = on.multiprocessors;
  int cluster = 1;
  while (args.k > kShortRow && cluster < 8 && args.total * cluster < 60 * processors) cluster *= 2;
  if (args.total < 96 * processors) {  // one tile per cluster
    for (const int outputs : {8, 16, 24, 32, 48, 64, 96, 128}) {
      if (args.epilogue == LinearEpilogue::kSiluMultiply && outputs % 16 != 0) continue;
      const int max_clusters = processors / cluster;
      if (TilesOf(args, outputs) <= max_clusters)
        return {outputs, cluster, max_clusters, cluster == 2 ? kOneBlockBytes : kTwoBlockBytes};
    }
  }
  Tiling best = {128, 1, 2 * processors, kTwoBlockBytes};  // persistent blocks, each with several tiles
  const auto waves = [&](int outputs) { return (TilesOf(args, outputs) + best.max_clusters - 1) / best.max_clusters; };
  for (const int outputs : {112, 96, 64}) {
    if (waves(outputs) * outputs < waves(best.outputs) * best.outputs) best.outputs = outputs;
  }
  return best;
}

/// Small matrices of up to 32 rows are left to small_gemm.cu: its blocks are so small that the next kernel's blocks
/// fit beside them. Measured on an H200: steps of SmolLM2-135M, whose layers are all narrow, are 6 to 20 % shorter with
/// it; those of GPT-2, whose only such layer is 1,024 x 1,024, were 3 to 4 % longer.
bool IsNarrow(const GemmArgs& args) {
  return std::min(args.k, args.total) < kNarrow && args.small() && args.x.rows <= GemmArgs::kMaxRows;
}

template <class T, int kN, bool kGateUp>
void LaunchTiles(const Launcher& on, const GemmArgs& args, const Tiling& tiling) {
  using Kernel = WgmmaGemm<T, kN, kGateUp>;
  WgmmaGemmParams a = {};
  a.chunks = (args.k + kBoxColumns - 1) / kBoxColumns;
  a.tiles = TilesOf(args, kN);
  const int waves = (a.tiles + tiling.max_clusters - 1) / tiling.max_clusters, clusters = (a.tiles + waves - 1) / waves;
  a.total = args.total, a.rows = static_cast<int>(args.x.rows);
  const int box_rows = (a.rows + 7) / 8 * 8;
  a.stage_bytes = Kernel::kWeightBytes + box_rows * kBoxColumns * 2;
  const size_t others = Kernel::OtherBytes(a.rows);
  const int max_stages = static_cast<int>((tiling.bytes - others) / static_cast<size_t>(a.stage_bytes));
  a.stages = std::min({kWgmmaGemmStages, max_stages, waves * ((a.chunks + tiling.cluster - 1) / tiling.cluster)});
  a.bias = args.bias;
  a.y = args.y.data, a.y_dtype = args.y.dtype, a.y_stride = args.y.stride;
  a.fours = AllowsFloat4(args.y) && Aligned(args.bias);
  a.accumulate = args.accumulate, a.epilogue = args.epilogue;
  a.product = args.product.data, a.product_stride = args.product.stride;
  const CUtensorMap w = kGateUp ? MapGateUp(args.dtype, args.weights[0], args.total, args.k, kN)
                                : MapRows(args.dtype, args.weights[0], args.total, args.k, args.k, kN);
  const CUtensorMap x = MapRows(args.dtype, args.x.data, args.x.rows, args.k, args.x.stride, box_rows);
  Launcher in_clusters = on;
  in_clusters.cluster = tiling.cluster;
  // At least the amount that limits an SM to two blocks; with more, blocks are distributed unevenly.
  const size_t shared = std::max(kTwoBlocksLeast, static_cast<size_t>(a.stages * a.stage_bytes) + others);
  Launch(in_clusters, WgmmaGemmKernel<T, kN, kGateUp>, Grid(clusters * tiling.cluster), kWgmmaGemmThreads, shared, w, x,
         a);
}

template <class T, bool kGateUp>
void LaunchOutputs(const Launcher& on, const GemmArgs& args, const Tiling& tiling) {
  switch (tiling.outputs) {
    case 16:
      return LaunchTiles<T, 16, kGateUp>(on, args, tiling);
    case 32:
      return LaunchTiles<T, 32, kGateUp>(on, args, tiling);
    case 48:
      return LaunchTiles<T, 48, kGateUp>(on, args, tiling);
    case 64:
      return LaunchTiles<T, 64, kGateUp>(on, args, tiling);
    case 96:
      return LaunchTiles<T, 96, kGateUp>(on, args, tiling);
    case 112:
      return LaunchTiles<T, 112, kGateUp>(on, args, tiling);
    case 128:
      return LaunchTiles<T, 128, kGateUp>(on, args, tiling);
    default:
      if constexpr (!kGateUp) {
        if (tiling.outputs == 8) return LaunchTiles<T, 8, false>(on, args, tiling);
        LaunchTiles<T, 24, false>(on, args, tiling);
      }
  }
}

template <class T>
void LaunchOfType(const Launcher& on, const GemmArgs& args) {
  const Tiling tiling = ChooseTiling(on, args);
  if (args.epilogue == LinearEpilogue::kSiluMultiply) return LaunchOutputs<T, true>(on, args, tiling);
  LaunchOutputs<T, false>(on, args, tiling);
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

bool CanWgmmaGemm(const Launcher& on, const GemmArgs& args) {
#ifdef RINGSIDE_SM90A
  if (!on.hopper || args.fixed_order || args.norm || args.x.rows > kMaxWgmmaGemmRows) return false;
  if (args.weight_dtype != args.dtype || (IsNarrow(args) && IsSmallGemm(args))) return false;
  if (args.x.rows < 5 && CanGemv(on, args)) return false;
  if (args.x.dtype != args.dtype || (args.accumulate && args.y.dtype != DType::kF32)) return false;
  if (args.epilogue == LinearEpilogue::kSiluMultiply) {
    if (args.total % 16 != 0 || args.accumulate || reinterpret_cast<uintptr_t>(args.bias) % 16 != 0) return false;
    if (!AllowsFloat4(args.y) || !AllowsFloat4(args.product) || args.product.dtype != args.dtype) return false;
  }
  return CanMap(args.weights[0], args.k) && AreContiguous(args) && CanMap(args.x.data, args.x.stride);
#else
  (void)on, (void)args;
  return false;
#endif
}

void LaunchWgmmaGemm(const Launcher& on, const GemmArgs& args) {
  CHECK(CanWgmmaGemm(on, args));
  if (args.dtype == DType::kF16) return LaunchOfType<__half>(on, args);
  LaunchOfType<__nv_bfloat16>(on, args);
}

}  // namespace ringside::cuda
