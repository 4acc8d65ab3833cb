#include "kernels/cuda/linear/linear_tiling.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "kernels/cuda/linear/linear_sizes.h"

namespace ringside::cuda {
namespace {

int ToInt(int64_t x) { return static_cast<int>(x); }

constexpr int64_t kLongRun = 12;  // K tiles of a warp; fewer take less time than the prologue

/// N tiles of a GEMV of block-quantized weights.
int64_t GemvTilesOf(const LinearCase& of) { return DivideUp(of.results(), kNTileRows / (of.gate_up() ? 2 : 1)); }

/// Division over up to `max_blocks` blocks with up to `max_bytes` of shared memory.
LinearTile DivideGemv(const LinearCase& of, int64_t max_blocks, size_t max_bytes) {
  const LinearLayer& layer = of.layer;
  const int64_t tiles = GemvTilesOf(of), blocks = std::min(tiles, max_blocks), own = DivideUp(tiles, blocks);
  const int64_t ring = kWarps * KTileBytes(layer.weights);
  const int64_t results = std::min<int64_t>(own * layer.rows * kNTileRows / (of.gate_up() ? 2 : 1), kBlockThreads);
  const int64_t row_stride = GemvRowStride(layer.k, kKTileInputs),
                integer_floats = WithBits(layer.weights, [&](auto bits) -> int64_t {
                  return IntegerRowFloats<decltype(bits)::value>(ToInt(row_stride));
                });
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float)), kHalf = static_cast<int64_t>(sizeof(uint16_t));
  const auto fixed_bytes =
      static_cast<size_t>(kFloat * kGemvExtras * results + layer.rows * (kFloat * kNTileRows * (own + kWarps) +
                                                                         kHalf * row_stride + kFloat * integer_floats));
  LinearTile out{.outputs = kNTileRows, .warps = kWarps, .blocks = ToInt(blocks)};
  out.rows = !TakesIntegers(layer.weights) || layer.rows > 2 ? kMaxGemvRows : ToInt(layer.rows);
  out.stages =
      fixed_bytes > max_bytes ? 0 : std::min(kMaxStages, ToInt(static_cast<int64_t>(max_bytes - fixed_bytes) / ring));
  out.shared_bytes = fixed_bytes + static_cast<size_t>(out.stages * ring);
  return out;
}

/// Whether one block per SM, with all of its stages, has clearly fewer N tiles to compute than two with half of the
/// stages each, and each N tile is long.
bool DividesBetter(const LinearCase& of, const LinearTile& one, const LinearTile& two) {
  const int64_t tiles = GemvTilesOf(of), most = DivideUp(tiles, one.blocks), most_of_two = DivideUp(tiles, two.blocks);
  return one.stages > two.stages && most * 8 <= 2 * most_of_two * 7 &&
         DivideUp(of.layer.k, kKTileInputs) * most_of_two >= kLongRun * kWarps;
}

/// The largest split-K factor with two K tiles per split and at most two blocks per SM.
int SplitOfW8A16(const LinearCase& of, int64_t tiles) {
  const DeviceTraits& device = of.device;
  const int64_t chunks = DivideUp(of.layer.k, kW8KTile);
  int best = 1;
  for (int split_k = 2; split_k <= std::min(kW8MaxSplitK, device.largest_cluster) && split_k * 2 <= chunks; ++split_k) {
    // Devices of one model may hold different numbers of clusters.
    const bool fits = of.layer.fixed_order ? std::has_single_bit(static_cast<unsigned>(split_k)) &&
                                                 tiles * split_k <= 2 * device.multiprocessors
                                           : tiles <= 2 * device.clusters[static_cast<size_t>(split_k)];
    if (fits) best = split_k;
  }
  return best;
}

/// Rows of x per tile; the first column is the largest number of rows.
int TileRows(int64_t rows, std::initializer_list<int> sizes) {
  for (const int size : sizes) {
    if (rows <= size) return size;
  }
  return *(sizes.end() - 1);
}

/// The split-K factor with the shortest estimated time for `tiles` tiles. Larger clusters leave SMs idle that belong to
/// none: the device holds fewer clusters than its SM count suggests.
int SplitOfBlockQuant(const LinearCase& of, int64_t tiles, int tile_rows) {
  const SplitKCost& cost = of.tuning().block_quant_split;
  const double k_tile = cost.k_tile + cost.k_tile_per_row * tile_rows, wave = cost.wave + cost.wave_per_row * tile_rows;
  const int64_t chunks = TilesAcross(of.layer.k);
  int best = 1;
  double least = 0;
  for (int split_k = 1; split_k <= of.device.largest_cluster && split_k * 2 <= chunks; ++split_k) {
    const int resident = of.device.clusters[static_cast<size_t>(split_k)];
    if (resident == 0) break;
    const double waves = static_cast<double>(DivideUp(tiles, resident)),
                 own = static_cast<double>(DivideUp(chunks, split_k));
    const double time = waves * (own * k_tile + wave + split_k * cost.split);
    if (split_k == 1 || time < least) best = split_k, least = time;
  }
  return best;
}

/// Every matrix is padded to whole panels.
int64_t BlockQuantTilesOf(const LinearCase& of, int tile_rows) {
  int64_t outputs = 0;
  for (const int64_t own : of.layer.outputs) outputs += DivideUp(own, kPanelRows) * kPanelRows;
  return DivideUp(outputs, kBlockQuantOutputs) * DivideUp(of.layer.rows, tile_rows);
}
int BlockQuantTileRows(int64_t rows) { return TileRows(rows, {16, 32, 64, 128}); }

}  // namespace

bool FitsGemv(const LinearCase& of) {
  const LinearLayer& layer = of.layer;
  if (layer.rows > kMaxGemvRows || layer.k < kMinGemvInputs) return false;
  const bool bytewise = HasRowScales(layer.weights), large = of.device.large;
  // With a gate-up epilogue, so that the answer is the same for both.
  const size_t bytes = GemvSharedBytes(GemvUnitRows(bytewise, true), large, layer.rows,
                                       GemvRowStride(layer.k, kGemvLineBytes / (bytewise ? 1 : 2)));
  return bytes <= MaxGemvSharedBytes(large);
}

LinearTile GemvTile(const LinearCase& of) {
  const LinearLayer& layer = of.layer;
  const bool bytewise = HasRowScales(layer.weights);
  LinearTile out{.outputs = GemvUnitRows(bytewise, of.gate_up()), .rows = kMaxGemvRows};
  const int64_t tiles = DivideUp(of.results(), out.outputs / (of.gate_up() ? 2 : 1)),
                blocks = std::min<int64_t>(tiles, kBlocksPerProcessor * of.device.multiprocessors);
  out.blocks = ToInt(blocks);
  // One warp per tile if every warp gets several: short rows do not amortize the barrier.
  out.warps = layer.k <= of.tuning().gemv_short_row && tiles >= 2 * kWarps * blocks ? 1 : kWarps;
  out.stages = GemvStages(out.outputs, of.device.large);
  out.shared_bytes = GemvSharedBytes(out.outputs, of.device.large, layer.rows,
                                     GemvRowStride(layer.k, kGemvLineBytes / (bytewise ? 1 : 2)));
  return out;
}

// Two blocks per SM, or one if x leaves no room for two. With one or two rows, or 8-bit weights, K tiles are computed
// faster than they arrive; one block with more stages is then better than two with a single K tile in flight each.
LinearTile BlockQuantGemvTile(const LinearCase& of) {
  const DeviceTraits& device = of.device;
  const int wanted = of.layer.rows <= 2 || !TakesIntegers(of.layer.weights) ? kStagesForTwoBlocks : kMinStages;
  const LinearTile two =
      DivideGemv(of, kBlocksPerProcessor * device.multiprocessors, MaxGemvSharedBytes(device.large) - kGemvStaticBytes);
  const LinearTile one = DivideGemv(of, device.multiprocessors, SharedBytes(device.large) - kGemvStaticBytes);
  if (two.stages >= wanted) return of.layer.rows <= 2 && DividesBetter(of, one, two) ? one : two;
  return one.stages > two.stages ? one : two;
}

std::pair<LinearTile, LinearTile> TwoBlockQuantGemvTiles(const LinearCase& of, const LinearCase& next) {
  const int64_t all = kBlocksPerProcessor * of.device.multiprocessors, own_tiles = GemvTilesOf(of),
                next_tiles = GemvTilesOf(next), own_bytes = TileBytes(of.layer.weights),
                next_bytes = TileBytes(next.layer.weights);
  // Whole tiles: the fewest bytes of the block with the most.
  const auto most = [&](int64_t own) {
    return std::max(DivideUp(own_tiles, own) * own_bytes, DivideUp(next_tiles, all - own) * next_bytes);
  };
  const int64_t even =
      std::clamp<int64_t>(all * own_tiles * own_bytes / (own_tiles * own_bytes + next_tiles * next_bytes), 1, all - 1);
  int64_t blocks = even;
  for (int64_t own = 1; own < all; ++own) {
    const bool closer = most(own) == most(blocks) && std::abs(own - even) < std::abs(blocks - even);
    if (most(own) < most(blocks) || closer) blocks = own;
  }
  const size_t max_bytes_each = MaxGemvSharedBytes(of.device.large) - 2 * kGemvStaticBytes;
  return {DivideGemv(of, blocks, max_bytes_each), DivideGemv(next, all - blocks, max_bytes_each)};
}

LinearTile SmallGemmTile(const LinearCase& of) {
  const int64_t rows = of.layer.rows, total = of.layer.total(), processors = of.device.multiprocessors;
  if (rows <= 8) return {.outputs = of.gate_up() ? 32 : 16, .rows = 8, .warps = kWarps};
  // With more rows, wider blocks read x less often.
  const bool wide = total >= of.tuning().small_wide * processors;
  if (rows <= 16 || of.small()) return {.outputs = of.gate_up() ? 32 : wide ? 64 : 16, .rows = 16, .warps = kWarps};
  const bool medium = total >= of.tuning().small_medium * processors;
  // More rows than 16 of a large W: only in a fixed order, which fuses nothing.
  return {.outputs = wide ? 64 : medium ? 32 : 16, .rows = 32, .warps = kWarps};
}

LinearTile WgmmaGemmTile(const LinearCase& of) {
  const LinearTuning& tuning = of.tuning();
  const int64_t total = of.layer.total(), processors = of.device.multiprocessors;
  LinearTile out{.rows = kMaxWgmmaGemmRows};
  const auto divide = [&](int64_t max_clusters) {
    const int64_t tiles = DivideUp(total, out.outputs), waves = DivideUp(tiles, max_clusters);
    out.blocks = ToInt(DivideUp(tiles, waves) * out.split_k);
    return out;
  };
  int cluster = 1;
  while (of.layer.k > tuning.wgmma_short_row && cluster < kMaxClusterBlocks &&
         total * cluster < tuning.wgmma_split_outputs * processors) {
    cluster *= 2;
  }
  if (total < tuning.wgmma_one_wave_outputs * processors) {  // one tile per cluster
    for (const int outputs : {8, 16, 24, 32, 48, 64, 96, 128}) {
      if (of.gate_up() && outputs % 16 != 0) continue;
      const int64_t max_clusters = processors / cluster;
      if (DivideUp(total, outputs) > max_clusters) continue;
      out.outputs = outputs, out.split_k = cluster;
      out.shared_bytes = cluster == 2 ? kOneBlockBytes : kTwoBlockBytes;
      return divide(max_clusters);
    }
  }
  const int64_t max_blocks = 2 * processors;  // persistent blocks, each with several tiles
  const auto waves = [&](int64_t outputs) { return DivideUp(DivideUp(total, outputs), max_blocks); };
  out.outputs = 128, out.shared_bytes = kTwoBlockBytes;
  for (const int outputs : {112, 96, 64}) {
    if (waves(outputs) * outputs < waves(out.outputs) * out.outputs) out.outputs = outputs;
  }
  return divide(max_blocks);
}

LinearTile W8A16GemmTile(const LinearCase& of) {
  const int64_t total = of.layer.total();
  // Wide tiles read x less often, but there must be enough of these tiles.
  const bool wide = total / (2 * kW8Outputs) * kW8MaxSplitK * 2 >= of.tuning().w8_wide * of.device.multiprocessors;
  LinearTile out{.outputs = of.gate_up() || wide ? 2 * kW8Outputs : kW8Outputs,
                 .rows = TileRows(of.layer.rows, {8, 16, 32, 64})};
  const int64_t tiles = DivideUp(of.results(), of.gate_up() ? kW8Outputs : out.outputs);
  out.split_k = SplitOfW8A16(of, tiles);
  out.blocks = ToInt(tiles * out.split_k);
  return out;
}

LinearTile BlockQuantGemmTile(const LinearCase& of) {
  LinearTile out{.outputs = kBlockQuantOutputs, .rows = BlockQuantTileRows(of.layer.rows)};
  const int64_t tiles = BlockQuantTilesOf(of, out.rows);
  out.split_k = SplitOfBlockQuant(of, tiles, out.rows);
  out.blocks = ToInt(tiles * out.split_k);
  return out;
}

std::pair<LinearTile, LinearTile> TwoBlockQuantGemmTiles(const LinearCase& of, const LinearCase& next) {
  LinearTile out{.outputs = kBlockQuantOutputs, .rows = BlockQuantTileRows(of.layer.rows)}, other = out;
  const int64_t tiles = BlockQuantTilesOf(of, out.rows), next_tiles = BlockQuantTilesOf(next, out.rows);
  out.split_k = other.split_k = SplitOfBlockQuant(of, tiles + next_tiles, out.rows);
  out.blocks = ToInt(tiles * out.split_k), other.blocks = ToInt(next_tiles * out.split_k);
  return {out, other};
}

// Minimizes the bytes on a block's critical path over all waves: its weights, the rows, and the partial sums.
LinearTile Fp8GemmTile(const LinearCase& of) {
  const int64_t rows = of.layer.rows;
  LinearTile best{.rows = rows <= kFp8GroupRows ? kFp8GroupRows : kMaxFp8Rows};
  int64_t least = 0;
  for (const int outputs : {64, 128, 192, 256}) {
    for (int cluster = 1; cluster <= std::min(kMaxClusterBlocks, of.device.largest_cluster); cluster *= 2) {
      const int64_t tiles = DivideUp(of.layer.total(), outputs),
                    there = cluster == 1 ? of.device.multiprocessors : of.device.clusters[static_cast<size_t>(cluster)];
      if (there == 0) continue;
      const int64_t own = DivideUp(DivideUp(of.layer.k, kFp8KTile), cluster) * kFp8KTile;
      const int64_t bytes = DivideUp(tiles, there) * ((outputs + rows) * own + rows * outputs * (cluster == 1 ? 2 : 8));
      if (least != 0 && bytes >= least) continue;
      least = bytes;
      best.outputs = outputs, best.split_k = cluster, best.blocks = ToInt(tiles * cluster);
    }
  }
  return best;
}

int64_t DequantizedPanelOutputs(const DeviceTraits& device, const LinearLayer& layer, int64_t max_outputs) {
  const LinearTuning& tuning = *device.tuning;
  const int64_t tile = tuning.product_tile, row_bytes = StorageBytes(layer.dtype, layer.k);
  const int64_t enough = 2 * device.multiprocessors * tile * tile / layer.rows,
                wanted = std::min(max_outputs, std::max(tuning.cached_panel_bytes / row_bytes, enough));
  CHECK_GT(wanted, 0);
  const int64_t panels = DivideUp(layer.total(), wanted), even = DivideUp(DivideUp(layer.total(), panels), tile) * tile;
  return std::min(even, max_outputs);
}

}  // namespace ringside::cuda
