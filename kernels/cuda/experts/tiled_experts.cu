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

/// Processes a block's segments. Shared memory: stages, sums of two rounds, the list, scales, rows of x.
template <class Path, class T, bool kIn, int kBits>
class BlockSegments {
 public:
  __device__ __forceinline__ BlockSegments(const ExpertsCall& a, const TiledExpertsGrid& tiling, unsigned char* shared,
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
    for (Segment* segment = list_; segment < list_ + segments; ++segment) {
      Path::WithCount(segment->rows.count, [&](auto count) {
        using Sums = typename Path::template Sums<T, kBits, decltype(count)::value>;
        float* units = units_ + segment->before * kNTileRows;  // per segment: earlier results may be in flight
        FetchUnits<kIn, kBits, Path::kThreads>(*segment, units);
        if constexpr (!kIn) FetchTargets(a_, *segment);
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
  const TiledExpertsGrid& tiling_;
  const uint32_t ring_;  // the warp's
  const void* const zeros_;
  float* const sums_;
  Segment* const list_;
  float* const units_;
  unsigned char* const x_;
  int rounds_ = 0;
};

template <class Path, class T, bool kIn, int kBits>
__global__ void __launch_bounds__(Path::kThreads, Path::kBlocks)
    TiledExpertsKernel(ExpertsCall a, TiledExpertsGrid tiling) {
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

template <class Path, class T, bool kIn>
void LaunchProduct(const Launcher& on, const ExpertsCall& call, const TiledExpertsGrid& grid) {
  CHECK_GE(grid.stages, kMinStages);
  WithBits(FirstTileType(kIn ? call.plan.in_types : call.plan.out_types), [&](auto bits) {  // the only type
    if constexpr (Path::template kTakes<bits()>) {
      Launch(on, TiledExpertsKernel<Path, T, kIn, bits()>, Grid(grid.blocks), Path::kThreads, grid.shared_bytes, call,
             grid);
    }
  });
}

/// Calls body with the type of the kernel path.
template <class Body>
auto WithKernelPath(ExpertsPath path, const Body& body) {
  if (path == ExpertsPath::kIntegers) return body(IntegerPath());
  if (path == ExpertsPath::kWholeIntegers) return body(WholeIntegerPath());
  return path == ExpertsPath::kFew ? body(FloatPath()) : body(WholeTilePath());
}

}  // namespace

void LaunchTiledExperts(const Launcher& on, const ExpertsCall& call, const ExpertsSelection& selection) {
  CHECK(selection.tiled && selection.path == call.path);
  WithKernelPath(call.path, [&](auto kind) {
    const auto launch = [&](auto type) {
      LaunchProduct<decltype(kind), decltype(type), true>(on, call, selection.in);
      LaunchProduct<decltype(kind), decltype(type), false>(on, call, selection.out);
    };
    call.x.dtype == DType::kF16 ? launch(__half()) : launch(__nv_bfloat16());
  });
}

}  // namespace ringside::cuda
