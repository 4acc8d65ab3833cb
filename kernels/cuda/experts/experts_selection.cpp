#include "kernels/cuda/experts/experts_selection.h"

#include <algorithm>
#include <bit>

#include "kernels/cuda/experts/segment.h"
#include "kernels/cuda/linear/linear_sizes.h"

namespace ringside::cuda {
namespace {

/// One of the two GEMMs: from x to activation(gate) * up, or from that to the expert's output.
struct ExpertsGemm {
  const ExpertsPlan& plan;
  ExpertsPath path;
  bool in;
  int64_t hidden, rows;

  const TiledPathTraits& traits() const {
    if (path == ExpertsPath::kIntegers) return kIntegerPath;
    if (path == ExpertsPath::kWholeIntegers) return kWholeIntegerPath;
    return path == ExpertsPath::kFew ? kFloatPath : kWholeTilePath;
  }
  uint32_t types() const { return in ? plan.in_types : plan.out_types; }
  DType type() const { return FirstTileType(types()); }
  int64_t TilesOf(int64_t outputs) const { return DivideUp(outputs, kNTileRows / (in ? 2 : 1)); }
  /// Upper bound of a block's static shared memory.
  size_t static_bytes() const {
    return static_cast<size_t>(traits().threads / 32 * (kMaxStages * 8 + 4)) + kZeroInputsBytes + 256;
  }
  /// Bytes of a row of x in shared memory.
  int64_t RowBytes(int x_stride) const {
    const auto floats = [&](auto bits) -> int64_t { return IntegerRowFloats<decltype(bits)::value>(x_stride); };
    const int64_t more = traits().integers ? static_cast<int64_t>(sizeof(float)) * WithBits(type(), floats) : 0;
    return x_stride * 2 + more;
  }
};

/// Division over up to `max_blocks` blocks with up to `max_bytes` of shared memory.
TiledExpertsGrid DivideGrid(const ExpertsGemm& gemm, int64_t max_blocks, size_t max_bytes) {
  const ExpertsPlan& plan = gemm.plan;
  const int64_t groups = ExpertsCall::GroupCount(plan, gemm.path, gemm.rows),
                max_tiles = gemm.TilesOf(gemm.in ? plan.Pairs(plan.widest()) : gemm.hidden) * groups,
                fewest = gemm.TilesOf(gemm.in ? plan.Pairs(std::min(plan.inner, plan.last_inner)) : gemm.hidden),
                inputs = gemm.in ? gemm.hidden : plan.widest();
  const auto group_rows = static_cast<int>(std::min(gemm.rows, ExpertsCall::GroupRows(gemm.path)));
  TiledExpertsGrid out = {};
  out.blocks = static_cast<int>(std::min(max_tiles, max_blocks));
  out.tiles = static_cast<int>(DivideUp(max_tiles, out.blocks));
  out.segments = static_cast<int>(out.tiles / fewest + 2);
  out.x_stride = static_cast<int>(GemvRowStride(inputs, kKTileInputs));
  out.sums = gemm.traits().round_parts * kNTileRows * group_rows;
  const size_t fixed_bytes = static_cast<size_t>(group_rows * gemm.RowBytes(out.x_stride)) +
                             sizeof(Segment) * static_cast<size_t>(out.segments) +
                             sizeof(float) * static_cast<size_t>(2 * out.sums + out.tiles * kNTileRows),
               ring = static_cast<size_t>(gemm.traits().threads / 32 * KTileBytes(gemm.type()));
  out.stages =
      fixed_bytes > max_bytes ? 0 : static_cast<int>(std::min<size_t>(kMaxStages, (max_bytes - fixed_bytes) / ring));
  out.shared_bytes = fixed_bytes + static_cast<size_t>(out.stages) * ring;
  return out;
}

/// Division over the whole device; one block per SM if x leaves no room for two.
TiledExpertsGrid GridOf(const DeviceTraits& device, const ExpertsGemm& gemm) {
  if (gemm.traits().blocks == 2) {
    const TiledExpertsGrid two =
        DivideGrid(gemm, 2 * device.multiprocessors, MaxGemvSharedBytes(device.large) - gemm.static_bytes());
    if (two.stages >= kMinStages) return two;
  }
  return DivideGrid(gemm, device.multiprocessors, SharedBytes(device.large) - gemm.static_bytes());
}

/// Whether all experts have one block-quantized type that the path supports, and x fits in shared memory.
bool Fits(const DeviceTraits& device, const ExpertsGemm& gemm) {
  if (!std::has_single_bit(gemm.types())) return false;
  if (gemm.traits().integers && !TakesIntegers(gemm.type())) return false;
  return GridOf(device, gemm).stages >= kMinStages;
}

/// A grid of row_experts.cu: blocks of `tiles` N tiles with `k_tiles` K tiles each, and `inputs` inputs in total.
TiledExpertsGrid RowGrid(const DeviceTraits& device, DType type, int64_t blocks, int64_t tiles, int64_t k_tiles,
                         int64_t inputs) {
  TiledExpertsGrid out = {};
  out.blocks = static_cast<int>(blocks), out.tiles = static_cast<int>(tiles);
  out.x_stride = static_cast<int>(GemvRowStride(inputs, kKTileInputs));
  const int64_t integer_floats =
      WithBits(type, [&](auto bits) -> int64_t { return IntegerRowFloats<decltype(bits)::value>(out.x_stride); });
  const auto fixed_bytes = static_cast<size_t>(out.x_stride * 2 + static_cast<int64_t>(sizeof(float)) *
                                                                      (integer_floats + (tiles + kWarps) * kNTileRows)),
             ring = static_cast<size_t>(kWarps * kKTileChunks * 2 * TileBytes(type));
  constexpr size_t kStaticBytes = 4096;  // upper bound of its static shared memory
  const size_t max_bytes = MaxGemvSharedBytes(device.large) - kStaticBytes;
  // A warp's whole run can be in flight: all stages but one.
  const int64_t run = DivideUp(tiles * k_tiles, kWarps) + 1;
  if (fixed_bytes < max_bytes) {
    out.stages = static_cast<int>(std::min({static_cast<int64_t>((max_bytes - fixed_bytes) / ring),
                                            std::max<int64_t>(run, kMinStages), int64_t{kMaxStages}}));
  }
  out.shared_bytes = fixed_bytes + static_cast<size_t>(out.stages) * ring;
  return out;
}

/// Selects the grids of row_experts.cu if it takes these experts.
void SelectOneRow(const DeviceTraits& device, const ExpertsPlan& plan, int64_t hidden, ExpertsSelection* out) {
  const bool sizes = plan.inner == plan.last_inner && plan.inner % kKTileInputs == 0 && hidden % kNTileRows == 0;
  const int64_t routed = plan.router.cols - (plan.experts_per_row - plan.top_k);
  const int64_t chosen = plan.experts_per_row + plan.dense;
  const bool experts = chosen <= kMaxRowExperts && routed <= kMaxRowRouted;
  if (plan.fixed || !plan.gated || plan.traits.scales_input || !sizes || !experts) return;
  const int64_t tiles = plan.inner / (kNTileRows / 2) * chosen,
                blocks = std::min<int64_t>(tiles, kBlocksPerProcessor * device.multiprocessors);
  const TiledExpertsGrid in = RowGrid(device, FirstTileType(plan.in_types), blocks, DivideUp(tiles, blocks),
                                      DivideUp(hidden, kKTileInputs), hidden),
                         sum = RowGrid(device, FirstTileType(plan.out_types), hidden / kNTileRows, chosen,
                                       plan.inner / kKTileInputs, chosen * plan.inner);
  if (in.stages < kMinStages || sum.stages < kMinStages) return;
  out->one_row = true, out->tiled = false, out->in = in, out->out = sum;
}

ExpertsPath SelectPath(const DeviceTraits& device, const ExpertsPlan& plan, int64_t hidden, int64_t rows) {
  const ExpertsTuning& tuning = device.tuning->experts;
  const bool few = rows <= kFewExpertRows;
  const double of_expert = static_cast<double>(rows * plan.experts_per_row) / static_cast<double>(plan.router.cols);
  if (!plan.in_tiles() && !plan.out_tiles()) {
    return few || of_expert <= tuning.few_rows ? ExpertsPath::kFew : ExpertsPath::kMany;
  }
  const int64_t max_rows = plan.fixed ? std::max(rows, kFewExpertRows) : rows;
  const auto can = [&](ExpertsPath path) {
    return Fits(device, {plan, path, true, hidden, max_rows}) && Fits(device, {plan, path, false, hidden, max_rows});
  };
  // More rows have enough tiles for all warps; then the sums of a tile need not pass from one warp to another.
  const ExpertsPath integers = few ? ExpertsPath::kIntegers : ExpertsPath::kWholeIntegers;
  if ((few || of_expert <= tuning.integer_rows) && can(integers)) return integers;
  if (few && can(ExpertsPath::kFew)) return ExpertsPath::kFew;
  const bool several = !few && of_expert <= tuning.several_rows && can(ExpertsPath::kSeveral);
  return several ? ExpertsPath::kSeveral : ExpertsPath::kMany;
}

}  // namespace

ExpertsSelection SelectExperts(const DeviceTraits& device, const ExpertsPlan& plan, int64_t hidden, int64_t rows) {
  ExpertsSelection out{.path = SelectPath(device, plan, hidden, rows)};
  out.tiled = out.path != ExpertsPath::kMany && plan.in_tiles();
  if (!out.tiled) return out;
  out.in = GridOf(device, {plan, out.path, true, hidden, rows});
  out.out = GridOf(device, {plan, out.path, false, hidden, rows});
  if (rows == 1 && out.path == ExpertsPath::kIntegers) SelectOneRow(device, plan, hidden, &out);
  return out;
}

}  // namespace ringside::cuda
