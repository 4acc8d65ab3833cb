// y (+)= x W^T + bias for up to 1,024 rows of x and weights in tiles (grouped_layout.h), on compute capability 9.0:
// bound by reading W once, and from some 64 rows on by the products. A block has 256 outputs, the left operand of warp
// group products, and up to 128 rows of x, the right one. One of its threads keeps a ring of slots full, a panel's
// tiles as one run of bytes and x as boxes; its four warp groups make their weights T in registers - each rounded once,
// as if the weight lay in T in memory - while the products before are under way. Where there are too few outputs for
// the device, the inputs are split over the blocks of a cluster. A row's bits depend on how many rows there are by the
// choice of this kernel and by that split.
//
// Behind: bias, GELU, or SiLU times up.
#include <algorithm>

#include "kernels/cuda/linear/grouped_linear.cuh"

namespace ringside::cuda {
namespace {

constexpr int kMostGroupedRows = 1024;  // more are multiplied faster with weights that are expanded for all of them
constexpr size_t kRingBytes = 224 << 10;

/// Over how many blocks inputs are split, for the shortest time of `tiles` tiles of kN rows. Clusters of many blocks
/// leave multiprocessors idle that belong to none: the device holds fewer of them than its number of multiprocessors
/// says.
template <int kN>
int SplitsOf(const Launcher& on, int tiles, int k) {
  // Microseconds of an H100; what counts is how they are to one another. A turn's pipeline fills, and sums are added.
  constexpr double kOfChunk = 0.78 + 0.0055 * kN, kOfTurn = 2.5 + 0.045 * kN, kOfSplit = 0.8;
  const int chunks = static_cast<int>(TilesAcross(k));
  int best = 1;
  double least = 0;
  for (int splits = 1; splits <= on.largest_cluster && splits * 2 <= chunks; ++splits) {
    const int at_a_time = on.clusters[static_cast<size_t>(splits)];
    if (at_a_time == 0) break;
    const int turns = (tiles + at_a_time - 1) / at_a_time;
    const double time = turns * ((chunks + splits - 1) / splits * kOfChunk + kOfTurn + splits * kOfSplit);
    if (splits == 1 || time < least) best = splits, least = time;
  }
  return best;
}

template <class T, int kBits, int kN, bool kPairs>
void LaunchTiles(const Launcher& on, const SkinnyLinear& args) {
  using Kernel = GroupedKernel<T, kBits, kN, kPairs>;
  const Skinny a = Narrow(args);
  GroupedDivision division;
  division.row_tiles = (a.rows + kN - 1) / kN;
  division.box_rows = (std::min(a.rows, kN) + 7) / 8 * 8;
  division.slot_bytes = division.box_rows * kTileInputs * 2 + Kernel::kWeightBytes;
  division.slots = std::min(kMostGroupedSlots, static_cast<int>(kRingBytes / static_cast<size_t>(division.slot_bytes)));
  const int outputs = kGroupedOutputs / (kPairs ? 2 : 1), all = kPairs ? a.total / 2 : a.total;
  const int tiles = (all + outputs - 1) / outputs * division.row_tiles, splits = SplitsOf<kN>(on, tiles, a.k);
  division.barriers = std::max(division.slots * division.slot_bytes,
                               static_cast<int>(sizeof(float)) * std::min(a.rows, kN) * kGroupedSumsStride);
  division.barriers = (division.barriers + 7) / 8 * 8;
  const size_t shared = static_cast<size_t>(division.barriers) + 2 * kMostGroupedSlots * sizeof(uint64_t);
  const CUtensorMap x = MapRows(args.dtype, args.x.data, args.x.rows, args.k, args.x.stride, division.box_rows);
  Launcher in_clusters = on;
  in_clusters.cluster = splits;
  Launch(in_clusters, RunGroupedLinear<T, kBits, kN, kPairs>, Grid(tiles * splits), kGroupedThreads, shared, x, a,
         division);
}

template <class T, int kBits>
void LaunchOfBits(const Launcher& on, const SkinnyLinear& args) {
  const int64_t rows = args.x.rows;
  if (args.after == AfterLinear::kSiluMultiply) {
    return rows <= 16   ? LaunchTiles<T, kBits, 16, true>(on, args)
           : rows <= 32 ? LaunchTiles<T, kBits, 32, true>(on, args)
           : rows <= 64 ? LaunchTiles<T, kBits, 64, true>(on, args)
                        : LaunchTiles<T, kBits, 128, true>(on, args);
  }
  rows <= 16   ? LaunchTiles<T, kBits, 16, false>(on, args)
  : rows <= 32 ? LaunchTiles<T, kBits, 32, false>(on, args)
  : rows <= 64 ? LaunchTiles<T, kBits, 64, false>(on, args)
               : LaunchTiles<T, kBits, 128, false>(on, args);
}

/// Whether panels of 64 outputs do not go beyond a matrix that others follow.
bool EndsWithPanels(const SkinnyLinear& args) {
  int rest = args.total;
  for (int i = 0; i < SkinnyLinear::kMaxWeights && rest > 0; ++i) {
    rest -= args.outputs[i];
    if (rest > 0 && args.outputs[i] % kPanelRows != 0) return false;
  }
  return args.after != AfterLinear::kSiluMultiply || args.total / 2 % kPanelRows == 0;
}

}  // namespace

bool CanGroup(const Launcher& on, const SkinnyLinear& args) {
#ifdef RINGSIDE_SM90A
  if (!on.hopper || args.fixed_order || args.norm || args.x.rows > kMostGroupedRows) return false;
  if (!HasGroupScales(args.weight_dtype) || args.x.dtype != args.dtype) return false;
  return EndsWithPanels(args) && CanMap(args.x.data, args.x.stride);
#else
  (void)on, (void)args;
  return false;
#endif
}

void LaunchGroupedLinear(const Launcher& on, const SkinnyLinear& args) {
  CHECK(CanGroup(on, args));
  WithBits(args.weight_dtype, [&](auto bits) {
    if (args.dtype == DType::kF16) return LaunchOfBits<__half, bits()>(on, args);
    LaunchOfBits<__nv_bfloat16, bits()>(on, args);
  });
}

}  // namespace ringside::cuda
