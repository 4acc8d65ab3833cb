// Expert GEMMs with block-quantized weights, if no expert has many rows. Bound by reading the weights of the routed
// experts. The work items are tiles of 16 rows of an expert's weights: 8 gates and their ups, or 16 outputs. Blocks get
// equal runs over the tiles of all groups; the part of a run within one group is a segment, whose rows of x the block
// loads into shared memory. Weights stream through pipeline stages of each warp without a break between segments. A
// tile is computed by one warp. If there are few tiles, each is split into up to 8 parts (split-K), which the warps
// take in turn; their sums are reduced in shared memory, in part order, after each round of some tiles. A row's bits
// depend on nothing but the row.
//
// Measured on an H200, 128 experts of 768 x 2,048 in Q4_K with 8 randomly routed experts per row: at 16, 64 and 128
// rows gates and ups take 45, 82 and 102 us; their bytes alone take 34, 53 and 53 (kernels/cuda/NOTES.md).
#include <algorithm>

#include "kernels/cuda/experts/tile_rows.cuh"

namespace ringside::cuda {
namespace {

/// Upper bound of a block's static shared memory.
template <class Path>
constexpr size_t kStaticBytes = Path::kThreads / 32 * (kMaxStages * 8 + 4) + sizeof(ZeroInputs) + 256;

/// The grid of a GEMM.
struct Tiling {
  int blocks, stages, x_stride;  // pipeline stages; elements per row in shared memory
  int tiles, segments;           // upper bounds per block
  int sums;                      // floats of a round's sums
  size_t shared_bytes;
};

/// Processes a block's segments. Shared memory: stages, sums of two rounds, the list, scales, rows of x.
template <class Path, class T, bool kIn, int kBits>
class BlockSegments {
 public:
  __device__ __forceinline__ BlockSegments(const ExpertsCall& a, const Tiling& tiling, unsigned char* shared,
                                           const void* zeros)
      : a_(a),
        tiling_(tiling),
        ring_(SharedAddress(shared) + Warp() * tiling.stages * kKTileBytes<kBits>),
        zeros_(zeros),
        sums_(reinterpret_cast<float*>(shared + kOwnWarps * tiling.stages * kKTileBytes<kBits>)),
        list_(reinterpret_cast<Segment*>(sums_ + 2 * tiling.sums)),
        units_(reinterpret_cast<float*>(list_ + tiling.segments)),
        x_(reinterpret_cast<unsigned char*>(units_ + tiling.tiles * kNTileRows)) {}

  /// `barriers`: of all warps' stages.
  __device__ __forceinline__ void Run(const uint64_t* barriers) {
    const int segments = ListSegments<T, kIn, Path::kThreads, Path::kMaxSplitParts>(a_, list_);
    Stream stream(list_, segments, ring_, SharedAddress(barriers + Warp() * kMaxStages), tiling_.stages);
#pragma unroll 1
    for (int n = 0; n < tiling_.stages - 1; ++n) stream.Fetch();  // weights need not wait for the preceding kernel
    if constexpr (!kIn) GridDependencySync();
#pragma unroll 1
    for (const Segment* segment = list_; segment < list_ + segments; ++segment) {
      Path::WithCount(segment->rows.count, [&](auto count) {
        using Sums = typename Path::template Sums<T, kBits, decltype(count)::value>;
        float* units = units_ + segment->before * kNTileRows;  // per segment: earlier results may be in flight
        FetchUnits<kIn, Path::kThreads>(*segment, units);
        const SegmentInputs<T> from{segment->inputs, segment->rows.count,
                                    static_cast<const T*>(kIn ? a_.x.data : a_.mid),
                                    kIn ? a_.x.stride : a_.plan.widest(), segment->row_at};
        const auto x = Path::template Load<T, kBits, decltype(count)::value>(from, x_, tiling_.x_stride, zeros_, ring_);
        if constexpr (Path::kMaxSplitParts == 1) {
          MultiplyTiles<Sums>(*segment, x, units, stream);
        } else {
          MultiplyParts<Sums>(*segment, x, units, stream);
        }
      });
    }
  }

 private:
  static constexpr int kOwnWarps = Path::kThreads / 32;
  using Stream = SegmentStream<kIn, kBits, kOwnWarps>;

  static __device__ __forceinline__ int Warp() { return static_cast<int>(threadIdx.x) / 32; }

  /// Multiplies a segment in rounds of split-K parts.
  template <class Sums>
  __device__ __forceinline__ void MultiplyParts(const Segment& segment, const typename Sums::Places& x,
                                                const float* units, Stream& stream) {
    const LanePositions<kBits> places(ring_);
    const int rows = segment.rows.count, parts = segment.parts, k_tiles = segment.k_tiles,
              round_tiles = Path::kRoundUnits / parts;
    const PartStep step = segment.step;
    KTilePosition<kOwnWarps> at(segment);
#pragma unroll 1
    for (int first = 0; first < segment.tiles; first += round_tiles, ++rounds_) {
      const int tiles = min(round_tiles, segment.tiles - first);
      float* own = sums_ + rounds_ % 2 * tiling_.sums;
#pragma unroll 1
      while (at.tile < first + tiles) {
        Sums part;
#pragma unroll 1
        for (; at.k_tile < k_tiles; at.k_tile += parts) {
          const uint32_t there = stream.Next();
          stream.Fetch();
          part.Add(at.k_tile, x, places, there);
        }
        part.Store(own + ((at.tile - first) * parts + at.part) * rows * kNTileRows, rows, threadIdx.x % 32);
        at.NextPart(parts, step);
      }
      if (first == 0) WaitForAllCopies();
      __syncthreads();
      FinishRound<T, kIn, Path::kThreads, Path::kMaxSplitParts>(a_, segment, first, tiles, own, units);
    }
  }
  /// Multiplies a segment with one warp per tile.
  template <class Sums>
  __device__ __forceinline__ void MultiplyTiles(const Segment& segment, const typename Sums::Places& x,
                                                const float* units, Stream& stream) {
    const LanePositions<kBits> places(ring_);
    WaitForAllCopies();
    __syncthreads();
#pragma unroll 1
    for (int tile = Warp(); tile < segment.tiles; tile += kOwnWarps) {
      Sums sums;
#pragma unroll 1
      for (int k_tile = 0; k_tile < segment.k_tiles; ++k_tile) {
        const uint32_t there = stream.Next();
        stream.Fetch();
        sums.Add(k_tile, x, places, there);
      }
      sums.template Finish<kIn>(a_, segment, tile, units);
    }
    __syncthreads();  // the rows of the next segment overwrite those of this one
  }

  const ExpertsCall& a_;
  const Tiling& tiling_;
  const uint32_t ring_;  // the warp's
  const void* const zeros_;
  float* const sums_;
  Segment* const list_;
  float* const units_;
  unsigned char* const x_;
  int rounds_ = 0;
};

template <class Path, class T, bool kIn, int kBits>
__global__ void __launch_bounds__(Path::kThreads, Path::kBlocks) TiledExpertsKernel(ExpertsCall a, Tiling tiling) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ alignas(8) uint64_t barriers[Path::kThreads / 32 * kMaxStages];
  __shared__ ZeroInputs zeros;
  if (threadIdx.x < ZeroInputs::kSixteens) zeros.sixteens()[threadIdx.x] = {0, 0, 0, 0};
  // The routing kernel has ended when the blocks of the second GEMM start: the first GEMM triggers them only after its
  // own wait.
  if constexpr (kIn) GridDependencySync();
  TriggerProgrammaticLaunch();
  BlockSegments<Path, T, kIn, kBits>(a, tiling, shared, zeros.sixteens()).Run(barriers);
  if constexpr (!kBulkCopies) WaitForCopies<0>();
}

/// Division over up to `max_blocks` blocks with up to `max_bytes` of shared memory.
template <class Path, bool kIn, int kBits>
Tiling ChooseTiling(const ExpertsPlan& plan, ExpertsPath path, int64_t hidden, int64_t rows, int64_t max_blocks,
                    size_t max_bytes) {
  const auto tiles_of = [](int64_t outputs) { return (outputs + kTileOutputs<kIn> - 1) / kTileOutputs<kIn>; };
  const int64_t max_tiles = tiles_of(kIn ? plan.widest() : hidden) * ExpertsCall::GroupCount(plan, path, rows),
                fewest = tiles_of(kIn ? std::min(plan.inner, plan.last_inner) : hidden),
                inputs = kIn ? hidden : plan.widest();
  const auto group_rows = static_cast<int>(std::min(rows, ExpertsCall::GroupRows(path)));
  Tiling out = {};
  out.blocks = static_cast<int>(std::min(max_tiles, max_blocks));
  out.tiles = static_cast<int>((max_tiles + out.blocks - 1) / out.blocks);
  out.segments = static_cast<int>(out.tiles / fewest + 2);
  out.x_stride = static_cast<int>((inputs + kKTileInputs - 1) / kKTileInputs * kKTileInputs + 8);
  out.sums = Path::kRoundUnits * kNTileRows * group_rows;
  const size_t fixed_bytes = static_cast<size_t>(group_rows * Path::template RowBytes<kBits>(out.x_stride)) +
                             sizeof(Segment) * static_cast<size_t>(out.segments) +
                             sizeof(float) * static_cast<size_t>(2 * out.sums + out.tiles * kNTileRows),
               ring = Path::kThreads / 32 * kKTileBytes<kBits>;
  out.stages =
      fixed_bytes > max_bytes ? 0 : static_cast<int>(std::min<size_t>(kMaxStages, (max_bytes - fixed_bytes) / ring));
  out.shared_bytes = fixed_bytes + static_cast<size_t>(out.stages) * ring;
  return out;
}
/// Division over the whole device for `rows` rows in total; one block per SM if x leaves no room for two.
template <class Path, bool kIn, int kBits>
Tiling ChooseTiling(const Launcher& on, const ExpertsPlan& plan, ExpertsPath path, int64_t hidden, int64_t rows) {
  if (Path::kBlocks == 2) {
    const Tiling two = ChooseTiling<Path, kIn, kBits>(plan, path, hidden, rows, 2 * on.multiprocessors,
                                                      MaxGemvSharedBytes(on.large) - kStaticBytes<Path>);
    if (two.stages >= kMinStages) return two;
  }
  return ChooseTiling<Path, kIn, kBits>(plan, path, hidden, rows, on.multiprocessors,
                                        SharedBytes(on.large) - kStaticBytes<Path>);
}

template <class Path, class T, bool kIn>
void LaunchProduct(const Launcher& on, const ExpertsCall& call) {
  WithBits(FirstTileType(kIn ? call.plan.in_types : call.plan.out_types), [&](auto bits) {  // the only type, see Fits
    if constexpr (Path::Takes(bits())) {
      const auto tiling = ChooseTiling<Path, kIn, bits()>(on, call.plan, call.path, call.x.cols, call.x.rows);
      Launch(on, TiledExpertsKernel<Path, T, kIn, bits()>, Grid(tiling.blocks), Path::kThreads, tiling.shared_bytes,
             call, tiling);
    }
  });
}

template <class Path, bool kIn>
bool Fits(const Launcher& on, const ExpertsPlan& plan, ExpertsPath path, int64_t hidden, int64_t rows) {
  const uint32_t types = kIn ? plan.in_types : plan.out_types;
  if (!std::has_single_bit(types)) return false;
  return WithBits(FirstTileType(types), [&](auto bits) {
    if constexpr (!Path::Takes(bits())) return false;
    return ChooseTiling<Path, kIn, bits()>(on, plan, path, hidden, rows).stages >= kMinStages;
  });
}

/// Calls body with the type of the kernel path.
template <class Body>
auto WithKernelPath(ExpertsPath path, const Body& body) {
  if (path == ExpertsPath::kIntegers) return body(IntegerPath());
  return path == ExpertsPath::kFew ? body(FloatPath()) : body(WholeTilePath());
}

}  // namespace

bool SupportsTiledExperts(const Launcher& on, const ExpertsPlan& plan, ExpertsPath path, int64_t hidden, int64_t rows) {
  return WithKernelPath(path, [&](auto kind) {
    using Path = decltype(kind);
    return Fits<Path, true>(on, plan, path, hidden, rows) && Fits<Path, false>(on, plan, path, hidden, rows);
  });
}

void LaunchTiledExperts(const Launcher& on, const ExpertsCall& call) {
  WithKernelPath(call.path, [&](auto kind) {
    const auto launch = [&](auto type) {
      LaunchProduct<decltype(kind), decltype(type), true>(on, call);
      LaunchProduct<decltype(kind), decltype(type), false>(on, call);
    };
    call.x.dtype == DType::kF16 ? launch(__half()) : launch(__nv_bfloat16());
  });
}

}  // namespace ringside::cuda
