// y (+)= x W^T + bias for up to 1,024 rows of x and block-quantized weights (block_quant_layout.h), on compute
// capability 9.0. Bound by reading W once, and from about 64 rows on by the tensor cores. A block has 256 outputs, the
// left operand of WGMMAs, and up to 128 rows of x, the right one. A producer thread fills the pipeline stages: a
// panel's tiles by one bulk copy, x as TMA boxes. The four consumer warp groups dequantize their weights to T in
// registers, overlapped with the preceding WGMMAs; each weight is rounded once, as if it were stored in T. If there are
// too few output tiles for the device, the CTAs of a cluster split K. The number of rows affects a row's bits through
// the choice of this kernel and the split-K factor.
//
// Two layers of the same rows, whose types differ in a mixed-type file, share one launch: each alone has too few blocks
// for the device, and its prologue and epilogue take longer than its bytes.
//
// Epilogue: bias, GELU, or SiLU(gate) * up.
#include <algorithm>

#include "kernels/cuda/linear/block_quant_gemm.cuh"

namespace ringside::cuda {
namespace {

constexpr int kMaxBlockQuantRows = 1024;  // with more rows it is faster to dequantize the weights once
constexpr size_t kRingBytes = 224 << 10;

/// The split-K factor with the shortest estimated time for `tiles` tiles of kN rows. Larger clusters leave SMs idle
/// that belong to none: the device holds fewer clusters than its SM count suggests.
template <int kN>
int ChooseSplitK(const Launcher& on, int tiles, int k) {
  // In microseconds on an H100; only their ratios matter. Per K tile; per wave, to fill the pipeline; and per split, to
  // reduce the sums.
  constexpr double kPerKTile = 0.78 + 0.0055 * kN, kPerWave = 2.5 + 0.045 * kN, kPerSplit = 0.8;
  const int chunks = static_cast<int>(TilesAcross(k));
  int best = 1;
  double least = 0;
  for (int split_k = 1; split_k <= on.largest_cluster && split_k * 2 <= chunks; ++split_k) {
    const int resident = on.clusters[static_cast<size_t>(split_k)];
    if (resident == 0) break;
    const int waves = (tiles + resident - 1) / resident;
    const double time = waves * ((chunks + split_k - 1) / split_k * kPerKTile + kPerWave + split_k * kPerSplit);
    if (split_k == 1 || time < least) best = split_k, least = time;
  }
  return best;
}

int TilesOf(const GemmArgs& args, bool gate_up, int row_tiles) {
  const int outputs = kBlockQuantOutputs / (gate_up ? 2 : 1), all = gate_up ? args.total / 2 : args.total;
  return (all + outputs - 1) / outputs * row_tiles;
}

/// Tiling of a kernel with up to `tile_rows` rows per M tile and `weight_bytes` per stage.
BlockQuantTiling ChooseTiling(int rows, int tile_rows, int weight_bytes) {
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
void LaunchTiles(const Launcher& on, const GemmArgs& args) {
  using Kernel = BlockQuantGemm<T, kBits, kN, kGateUp>;
  const BlockQuantTiling tiling = ChooseTiling(static_cast<int>(args.x.rows), kN, Kernel::kWeightBytes);
  const int tiles = TilesOf(args, kGateUp, tiling.row_tiles), split_k = ChooseSplitK<kN>(on, tiles, args.k);
  Launcher in_clusters = on;
  in_clusters.cluster = split_k;
  Launch(in_clusters, BlockQuantGemmKernel<T, kBits, kN, kGateUp>, Grid(tiles * split_k), Kernel::kThreads,
         BytesOf(tiling), MapOf(args, tiling), ToGemmParams(args), tiling);
}

template <class T, int kBits, int kNextBits, int kN>
void LaunchTwoTiles(const Launcher& on, const GemmArgs& args, const GemmArgs& next) {
  using Kernel = BlockQuantGemm<T, kBits, kN, false>;
  const auto rows = static_cast<int>(args.x.rows);
  const BlockQuantTiling tiling = ChooseTiling(rows, kN, Kernel::kWeightBytes),
                         next_tiling = ChooseTiling(rows, kN, BlockQuantGemm<T, kNextBits, kN, false>::kWeightBytes);
  const int tiles = TilesOf(args, false, tiling.row_tiles), next_tiles = TilesOf(next, false, tiling.row_tiles);
  const int split_k = ChooseSplitK<kN>(on, tiles + next_tiles, args.k);
  Launcher in_clusters = on;
  in_clusters.cluster = split_k;
  Launch(in_clusters, TwoBlockQuantGemmKernel<T, kBits, kNextBits, kN>, Grid((tiles + next_tiles) * split_k),
         Kernel::kThreads, std::max(BytesOf(tiling), BytesOf(next_tiling)), MapOf(args, tiling), ToGemmParams(args),
         tiling, ToGemmParams(next), next_tiling, tiles * split_k);
}

/// Calls body with the rows of an M tile as a compile-time constant.
template <class Body>
void WithTileRows(int64_t rows, const Body& body) {
  if (rows <= 16) return body(std::integral_constant<int, 16>());
  if (rows <= 32) return body(std::integral_constant<int, 32>());
  if (rows <= 64) return body(std::integral_constant<int, 64>());
  body(std::integral_constant<int, 128>());
}

template <class T, int kBits>
void LaunchOfBits(const Launcher& on, const GemmArgs& args) {
  WithTileRows(args.x.rows, [&](auto rows) {
    if (args.epilogue == LinearEpilogue::kSiluMultiply) return LaunchTiles<T, kBits, rows(), true>(on, args);
    LaunchTiles<T, kBits, rows(), false>(on, args);
  });
}

/// Whether 64-output panels never straddle two matrices (or the gates and ups).
bool EndsWithPanels(const GemmArgs& args) {
  int rest = args.total;
  for (int i = 0; i < GemmArgs::kMaxWeights && rest > 0; ++i) {
    rest -= args.outputs[i];
    if (rest > 0 && args.outputs[i] % kPanelRows != 0) return false;
  }
  return args.epilogue != LinearEpilogue::kSiluMultiply || args.total / 2 % kPanelRows == 0;
}

}  // namespace

bool CanBlockQuantGemm(const Launcher& on, const GemmArgs& args) {
#ifdef RINGSIDE_SM90A
  if (!on.hopper || args.fixed_order || args.norm || args.x.rows > kMaxBlockQuantRows) return false;
  if (!HasGroupScales(args.weight_dtype) || args.x.dtype != args.dtype) return false;
  return EndsWithPanels(args) && CanMap(args.x.data, args.x.stride);
#else
  (void)on, (void)args;
  return false;
#endif
}

void LaunchBlockQuantGemm(const Launcher& on, const GemmArgs& args) {
  CHECK(CanBlockQuantGemm(on, args));
  WithBits(args.weight_dtype, [&](auto bits) {
    if (args.dtype == DType::kF16) return LaunchOfBits<__half, bits()>(on, args);
    LaunchOfBits<__nv_bfloat16, bits()>(on, args);
  });
}

bool CanTwoBlockQuantGemm(const Launcher& on, const GemmArgs& args, const GemmArgs& next) {
  return CanBlockQuantGemm(on, args) && CanBlockQuantGemm(on, next) && args.epilogue == LinearEpilogue::kNothing &&
         next.epilogue == LinearEpilogue::kNothing &&
         WithBitsOfTwo(args.weight_dtype, next.weight_dtype, [](auto, auto) { return true; });
}

void LaunchTwoBlockQuantGemm(const Launcher& on, const GemmArgs& args, const GemmArgs& next) {
  CHECK(CanTwoBlockQuantGemm(on, args, next));
  WithBitsOfTwo(args.weight_dtype, next.weight_dtype, [&](auto bits, auto next_bits) {
    WithTileRows(args.x.rows, [&](auto rows) {
      if (args.dtype == DType::kF16) return LaunchTwoTiles<__half, bits(), next_bits(), rows()>(on, args, next);
      LaunchTwoTiles<__nv_bfloat16, bits(), next_bits(), rows()>(on, args, next);
    });
    return true;
  });
}

}  // namespace ringside::cuda
