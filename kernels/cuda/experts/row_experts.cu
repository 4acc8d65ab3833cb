// A mixture of experts for one row, with block-quantized weights of fewer than 8 bits: a step that decodes a single
// sequence. Bound by latency, so two kernels replace the four of several rows:
//
//   gates and ups  every block selects the experts itself, with one warp, while the others convert x to integers
//   outputs        the selected experts' output matrices form one matrix whose inputs are all their MLPs: a block
//                  computes 16 outputs of every expert and their weighted sum, in expert order
//
// Both stream K tiles as the GEMV of linear layers does (linear/gemv_quantized/block_quant_gemv.cuh): a block divides
// its K tiles into one run per warp, whose partial sums are added in warp order.
//
// Measured on an H200, Qwen3.6-35B-A3B in Q4_K_M: the four kernels took 25 us of a layer's 58, and their bytes alone
// take 4.
#include <algorithm>

#include "kernels/cuda/experts/experts_selection.h"
#include "kernels/cuda/experts/route_row.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/gemv_quantized/k_tile_products.cuh"

namespace ringside::cuda {
namespace {

constexpr int kMaxChosen = kMaxRowExperts, kRouterOwn = kMaxRowRouted / 32;  // of a row; of a lane of the router

/// The only row of x, or of the experts' MLPs.
template <class T>
struct RowInputs {
  int k, rows;
  const T* x;
};
template <class T>
__device__ __forceinline__ const T* InputRow(const RowInputs<T>& from, int) {
  return from.x;
}

/// A tile of 8 rows of a matrix and its following ones, eight outputs each.
template <int kBits>
__device__ __forceinline__ const unsigned char* TileAt(const PackedMatrix& matrix, int row, int k_tile, int inputs) {
  return static_cast<const unsigned char*>(matrix.data) +
         TileNumber(matrix.first_row + row, k_tile * kKTileChunks, TilesAcross(inputs)) * TileOf<kBits>::kBytes;
}

/// The K tiles of a warp's run, streamed through its pipeline stages. `find(tile, from)` writes the addresses of the
/// first two tiles of one of the block's N tiles.
template <int kBits, class Find>
class RunStream {
 public:
  __device__ __forceinline__ RunStream(const KTileRuns& runs, const KTileRun& run, int inputs, const Find& find,
                                       uint32_t ring, uint32_t barriers, int stages)
      : runs_(runs),
        find_(find),
        ring_(ring, barriers, stages),
        inputs_(inputs),
        left_(run.left),
        place_(run.place),
        k_tile_(run.k_tile) {
    if (left_ > 0) find_(place_, k_tile_, from_);
  }
  /// Starts the copies of the next K tile, or does nothing past the last.
  __device__ __forceinline__ void Fetch() {
    if (left_ > 0) {
      ring_.Copy({{from_[0], from_[1]}, {}}, (k_tile_ * kKTileChunks + 1) * kTileInputs < inputs_);
      for (const unsigned char*& from : from_) from += kKTileChunks * KTilePipeline<kBits>::kChunkBytes;
      --left_;
      if (++k_tile_ == runs_.k_tiles) {
        k_tile_ = 0, ++place_;
        if (left_ > 0) find_(place_, 0, from_);
      }
    }
    ring_.Advance();
  }
  __device__ __forceinline__ uint32_t Next() { return ring_.Next(); }

 private:
  const KTileRuns& runs_;
  const Find& find_;
  KTilePipeline<kBits> ring_;
  const int inputs_;
  int left_, place_, k_tile_;
  const unsigned char* from_[2] = {};
};

/// Shared memory of a block after the pipeline stages of its warps.
struct RowShared {
  unsigned char* x;  // integers
  float* after_x;    // their units and sums
  float* sums;       // partial sums: [N tiles + warps][kNTileRows]

  template <int kBits>
  static __device__ __forceinline__ RowShared After(unsigned char* shared, const TiledExpertsGrid& grid) {
    unsigned char* x = shared + kWarps * grid.stages * kKTileBytes<kBits>;
    auto* after_x = reinterpret_cast<float*>(x + grid.x_stride * 2);
    return {x, after_x, after_x + IntegerRowFloats<kBits>(grid.x_stride)};
  }
};

/// Multiplies a warp's run and stores its partial sums. `x_tile(place)`: the K tile of x with the first inputs of an N
/// tile.
template <int kBits, class Stream, class Tile>
__device__ __forceinline__ void MultiplyRun(const KTileRuns& runs, KTileRun run, Stream& stream, uint32_t ring,
                                            const typename IntegerSums<kBits, 1>::Places& x, float* sums,
                                            const Tile& x_tile) {
  const LanePositions<kBits> places(ring);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  do {
    IntegerSums<kBits, 1> own;
    const int first = x_tile(run.place);
#pragma unroll 1
    for (; run.left > 0 && run.k_tile < runs.k_tiles; ++run.k_tile, --run.left) {
      const uint32_t tiles = stream.Next();
      stream.Fetch();
      own.Add(first + run.k_tile, x, places, tiles);
    }
    own.Store(sums + (run.place + warp) * kNTileRows, 1, lane);
    run.k_tile = 0, ++run.place;
  } while (run.left > 0);
}
/// The sum of row `at` of one of the block's N tiles, in warp order.
__device__ __forceinline__ float SumOf(const KTileRuns& runs, const float* sums, int place, int at) {
  const int first = runs.WarpOf(place * runs.k_tiles), last = runs.WarpOf((place + 1) * runs.k_tiles - 1);
  float sum = 0;
  for (int warp = first; warp <= last; ++warp) sum += sums[(place + warp) * kNTileRows + at];
  return sum;
}

/// Selects the row's experts, by one warp, into shared memory; block 0 also stores them for the second kernel.
__device__ __forceinline__ void ChooseExperts(const ExpertsCall& a, bool plain, int lane, int32_t* ids,
                                              PackedExpert* chosen) {
  const auto emit = [&](int i, int expert, float weight) {
    ids[i] = expert;
    if (blockIdx.x == 0) a.ids[i] = expert, a.weights[i] = weight;
  };
  plain ? PlainRouter<kRouterOwn>::Route(a.plan, 0, lane, emit)
        : TraitsRouter<kRouterOwn>::Route(a.plan, 0, lane, emit);
  // The second kernel reads them as soon as all blocks have triggered it, before this kernel has ended.
  if (blockIdx.x == 0) __threadfence();
  __syncwarp();
  if (lane < a.plan.experts_per_row) chosen[lane] = a.plan.packed[ids[lane]];
  if (lane == a.plan.experts_per_row && a.plan.dense != 0) chosen[lane] = a.dense;
}

/// activation(gate) * up of the selected experts.
template <class T, int kBits>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerProcessor)
    RowGateUpKernel(ExpertsCall a, TiledExpertsGrid grid, bool plain) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ alignas(8) uint64_t barriers[kWarps * kMaxStages];
  __shared__ ZeroInputs zeros;
  __shared__ PackedExpert chosen[kMaxChosen];
  __shared__ int32_t ids[kMaxChosen];
  constexpr int kOutputs = kNTileOutputs<true>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, inputs = static_cast<int>(a.x.cols),
            tiles_of_expert = static_cast<int>(a.plan.inner) / kOutputs;
  if (blockIdx.x == 0) {
    for (int e = threadIdx.x; e < a.plan.router.cols; e += kBlockThreads) Prefetch(a.plan.packed + e);
  }
  if (threadIdx.x < ZeroInputs::kSixteens) zeros.sixteens()[threadIdx.x] = {0, 0, 0, 0};
  const RowShared to = RowShared::After<kBits>(shared, grid);
  const IntegerRows<kBits> integers(1, grid.x_stride, to.x, to.after_x);
  const RowInputs<T> from{inputs, 1, static_cast<const T*>(a.x.data)};
  const IntegerInputs<T, kBits, 1, RowInputs<T>> row(from, integers);
  const KTileRuns runs(inputs, tiles_of_expert * (a.plan.experts_per_row + a.plan.dense),
                       {static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x)});
  const KTileRun run(runs, warp);
  const uint32_t ring = SharedAddress(shared + warp * grid.stages * kKTileBytes<kBits>);

  GridDependencySync();
  if (warp == kWarps - 1) ChooseExperts(a, plain, lane, ids, chosen);
  row.Load();  // ends with a barrier
  TriggerProgrammaticLaunch();

  const auto matrices = [&](int place, int* output) -> const PackedExpert& {
    const int tile = runs.Tile(place), expert = tile / tiles_of_expert;
    *output = (tile - expert * tiles_of_expert) * kOutputs;
    return chosen[expert];
  };
  const auto find = [&](int place, int k_tile, const unsigned char*(&tiles)[2]) {
    int output;
    const PackedExpert& expert = matrices(place, &output);
    tiles[0] = TileAt<kBits>(expert.gate, output, k_tile, inputs);
    tiles[1] = TileAt<kBits>(expert.up, output, k_tile, inputs);
  };
  RunStream<kBits, decltype(find)> stream(runs, run, inputs, find, ring, SharedAddress(barriers + warp * kMaxStages),
                                          grid.stages);
#pragma unroll 1
  for (int n = 0; n < grid.stages - 1; ++n) stream.Fetch();
  const auto unit_of = [&](int i, bool up) {
    int output;
    const PackedExpert& expert = matrices(i / kOutputs, &output);
    const PackedMatrix& matrix = up ? expert.up : expert.gate;
    return matrix.units[matrix.first_row + output + i % kOutputs];
  };
  const int results = runs.tiles * kOutputs;
  const bool has_own = static_cast<int>(threadIdx.x) < results;
  const float own_units[2] = {has_own ? unit_of(threadIdx.x, false) : 0, has_own ? unit_of(threadIdx.x, true) : 0};
  MultiplyRun<kBits>(runs, run, stream, ring, {1, integers, zeros.sixteens(), ring}, to.sums, [](int) { return 0; });
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < results; i += kBlockThreads) {
    const bool own = i == static_cast<int>(threadIdx.x);
    int output;
    const PackedExpert& expert = matrices(i / kOutputs, &output);
    output += i % kOutputs;
    float gate = SumOf(runs, to.sums, i / kOutputs, i % kOutputs) * (own ? own_units[0] : unit_of(i, false)),
          up = SumOf(runs, to.sums, i / kOutputs, kOutputs + i % kOutputs) * (own ? own_units[1] : unit_of(i, true));
    if (expert.in_bias != nullptr) gate += expert.in_bias[output], up += expert.in_bias[a.plan.inner + output];
    static_cast<T*>(a.mid)[(&expert - chosen) * a.plan.inner + output] =
        FromFloat<T>(MultipliedOf(gate, up, a.activation));
  }
}

/// y (+)= the weighted sum of the selected experts' outputs. A block has 16 outputs: an N tile per expert.
template <class T, int kBits>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerProcessor)
    RowOutputKernel(ExpertsCall a, TiledExpertsGrid grid) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ alignas(8) uint64_t barriers[kWarps * kMaxStages];
  __shared__ ZeroInputs zeros;
  __shared__ PackedMatrix matrices[kMaxChosen];
  __shared__ const float* biases[kMaxChosen];
  __shared__ float weights[kMaxChosen], parts[kMaxChosen * kNTileRows];
  static_assert(kMaxChosen * kNTileRows <= kBlockThreads);
  TriggerProgrammaticLaunch();
  const int warp = threadIdx.x / 32, routed = a.plan.experts_per_row, per_row = routed + a.plan.dense,
            inner = static_cast<int>(a.plan.inner), first_output = static_cast<int>(blockIdx.x) * kNTileRows;
  if (const int i = static_cast<int>(threadIdx.x); i < per_row) {
    // Past the L1 cache: written by the preceding kernel, before it triggered this one.
    const PackedExpert& expert = i < routed ? a.plan.packed[__ldcg(a.ids + i)] : a.dense;
    matrices[i] = expert.out, biases[i] = expert.out_bias;
    weights[i] = i < routed ? __ldcg(a.weights + i) : 1;
  }
  if (threadIdx.x < ZeroInputs::kSixteens) zeros.sixteens()[threadIdx.x] = {0, 0, 0, 0};
  __syncthreads();
  const KTileRuns runs(inner, per_row, {0, 1});
  const KTileRun run(runs, warp);
  const uint32_t ring = SharedAddress(shared + warp * grid.stages * kKTileBytes<kBits>);
  const auto find = [&](int place, int k_tile, const unsigned char*(&tiles)[2]) {
    tiles[0] = TileAt<kBits>(matrices[place], first_output, k_tile, inner);
    tiles[1] = TileAt<kBits>(matrices[place], first_output + kTileRows, k_tile, inner);
  };
  RunStream<kBits, decltype(find)> stream(runs, run, inner, find, ring, SharedAddress(barriers + warp * kMaxStages),
                                          grid.stages);
#pragma unroll 1
  for (int n = 0; n < grid.stages - 1; ++n) stream.Fetch();  // weights need not wait for the preceding kernel
  const int place = threadIdx.x / kNTileRows, at = threadIdx.x % kNTileRows;
  float unit = 0, bias = 0;
  if (place < per_row) {
    unit = matrices[place].units[matrices[place].first_row + first_output + at];
    if (biases[place] != nullptr) bias = biases[place][first_output + at];
  }
  const RowShared to = RowShared::After<kBits>(shared, grid);
  const IntegerRows<kBits> integers(1, grid.x_stride, to.x, to.after_x);
  const RowInputs<T> from{per_row * inner, 1, static_cast<const T*>(a.mid)};
  const IntegerInputs<T, kBits, 1, RowInputs<T>> row(from, integers);
  GridDependencySync();
  float* y = static_cast<float*>(a.y.data) + first_output + at;
  float sum = place == 0 && a.plan.accumulate ? *y : 0;
  row.Load();  // ends with a barrier
  MultiplyRun<kBits>(runs, run, stream, ring, {1, integers, zeros.sixteens(), ring}, to.sums,
                     [&](int of) { return of * runs.k_tiles; });
  __syncthreads();
  if (place < per_row) parts[threadIdx.x] = weights[place] * fmaf(SumOf(runs, to.sums, place, at), unit, bias);
  __syncthreads();
  if (place > 0) return;
  for (int i = 0; i < per_row; ++i) sum += parts[i * kNTileRows + at];
  *y = sum;
}

template <class T>
void LaunchOfType(const Launcher& on, const ExpertsCall& call, const ExpertsSelection& selection) {
  WithBits(FirstTileType(call.plan.in_types), [&](auto bits) {
    if constexpr (kTakesIntegers<bits()>) {
      Launch(on, RowGateUpKernel<T, bits()>, Grid(selection.in.blocks), kBlockThreads, selection.in.shared_bytes, call,
             selection.in, call.plan.traits.plain());
    }
  });
  WithBits(FirstTileType(call.plan.out_types), [&](auto bits) {
    if constexpr (kTakesIntegers<bits()>) {
      Launch(on, RowOutputKernel<T, bits()>, Grid(selection.out.blocks), kBlockThreads, selection.out.shared_bytes,
             call, selection.out);
    }
  });
}

}  // namespace

void LaunchRowExperts(const Launcher& on, const ExpertsCall& call, const ExpertsSelection& selection) {
  CHECK(selection.one_row && call.x.rows == 1);
  CHECK_LE(call.plan.experts_per_row + call.plan.dense, kMaxChosen);
  CHECK_LE(call.plan.router.cols - (call.plan.experts_per_row - call.plan.top_k), kMaxRowRouted);
  CHECK(selection.in.stages >= kMinStages && selection.out.stages >= kMinStages);
  call.x.dtype == DType::kF16 ? LaunchOfType<__half>(on, call, selection)
                              : LaunchOfType<__nv_bfloat16>(on, call, selection);
}

}  // namespace ringside::cuda
