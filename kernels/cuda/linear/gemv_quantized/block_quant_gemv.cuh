// The streaming kernel for block-quantized weights (block_quant_weights.cuh) and up to 4 rows of x: y (+)= x W^T +
// bias. A K tile is two tiles of 256 inputs: 16 outputs, or 8 gates and their ups. A block has every n-th pair of tiles
// and splits all their K tiles into eight equal runs, one per warp, each with pipeline stages of its own. A warp stores
// its partial sums of every N tile in shared memory; after a single barrier at the end they are added in warp order.
// Sixteen rows of W are the left operand of the MMAs and x is the right one. Weights with fewer than 8 bits are
// multiplied as integers by x converted to 16-bit integers, which takes fewer operations than dequantizing them to
// 16-bit floats (k_tile_products.cuh); 8-bit weights are dequantized.
//
// Measured on an H200, an 8B model in Q4_K_M at one row: each of a layer's five kernels takes 4 us in addition to the
// time of its bytes, from the end of the preceding kernel until x is ready and in the epilogue. The MMAs are hidden
// (kernels/cuda/NOTES.md).
//
// Prologue and epilogue: as in gemv.cuh.
#pragma once

#include <algorithm>

#include "kernels/cuda/linear/gemv_epilogue.cuh"
#include "kernels/cuda/linear/gemv_quantized/k_tile_inputs.cuh"
#include "kernels/cuda/linear/gemv_quantized/k_tile_products.cuh"
#include "kernels/cuda/linear/gemv_quantized/k_tile_stream.cuh"

namespace ringside::cuda {

/// Position of a thread's i-th result, and its partial sums.
template <bool kGateUp>
struct GemvResult {
  int row, at, output;  // row of x; index within its tile; output of the layer
  int first_sum, sums;  // in tile-sized units for all rows: one partial sum per warp that has a part of the tile
  bool there;

  __device__ __forceinline__ GemvResult(const GemmParams& a, int rows, const KTileRuns& runs, int i) {
    constexpr int kOutputs = kNTileOutputs<kGateUp>;
    const int tile = i / (rows * kOutputs), rest = i - tile * rows * kOutputs;
    row = rest / kOutputs, at = rest % kOutputs, output = runs.Tile(tile) * kOutputs + at;
    there = tile < runs.tiles && output < (kGateUp ? a.total / 2 : a.total);
    const int first_warp = runs.WarpOf(tile * runs.k_tiles);
    first_sum = tile + first_warp;
    sums = runs.WarpOf((tile + 1) * runs.k_tiles - 1) - first_warp + 1;
  }
};

/// Prefetches the scales and old value of a thread's first result to shared memory while the sums are computed.
template <class T, class W, bool kGateUp>
class GemvEpilogue {
 public:
  __device__ __forceinline__ GemvEpilogue(const GemmParams& a, float* shared, int results)
      : a_(a), shared_(shared + threadIdx.x), results_(results) {}
  __device__ __forceinline__ void PrefetchScales(const GemvResult<kGateUp>& place) const {
    if (!place.there || !kHasRowScales<W>) return;
    CopyFloatAsync(shared_, ScalePointer(a_, place.output));
    if (kGateUp) CopyFloatAsync(shared_ + results_, ScalePointer(a_, a_.total / 2 + place.output));
  }
  /// Prefetches the old value of y.
  __device__ __forceinline__ void PrefetchOld(const GemvResult<kGateUp>& place) const {
    if (!place.there || !prefetches_old()) return;
    CopyFloatAsync(shared_ + 2 * results_, static_cast<const float*>(a_.y) + place.row * a_.y_stride + place.output);
  }
  __device__ __forceinline__ void Wait() const { WaitForAllCopies(); }

  /// Epilogue of one result: scales, bias, activation, store. `own`: it is the thread's first result, which was
  /// prefetched.
  template <class SumOf>
  __device__ __forceinline__ void Finish(const GemvResult<kGateUp>& place, bool own, const SumOf& sum_of) const {
    constexpr int kOutputs = kNTileOutputs<kGateUp>;
    const int half = a_.total / 2;
    TileResult result{.row = place.row, .place = place.at, .output = place.output, .there = true};
    if (a_.bias != nullptr) result.bias = a_.bias[place.output];
    if (kGateUp && a_.bias != nullptr) result.up_bias = a_.bias[half + place.output];
    if (!kGateUp && a_.accumulate) {
      result.old = own && prefetches_old() ? shared_[2 * results_]
                                           : LoadElement(a_.y, a_.y_dtype, place.row * a_.y_stride + place.output);
    }
    const float scale = !kHasRowScales<W> ? 1.0f : own ? shared_[0] : *ScalePointer(a_, place.output);
    float up = 0;
    if constexpr (kGateUp) {
      const float up_scale = !kHasRowScales<W> ? 1.0f
                             : own             ? shared_[results_]
                                               : *ScalePointer(a_, half + place.output);
      up = sum_of(kOutputs + place.at) * kConversionScale<T, W> * up_scale;
    }
    result.Store<T, kGateUp>(a_, sum_of(place.at) * kConversionScale<T, W> * scale, up);
  }

 private:
  __device__ __forceinline__ bool prefetches_old() const {
    return !kGateUp && a_.accumulate && a_.y_dtype == DType::kF32;
  }

  const GemmParams& a_;
  float* const shared_;  // the thread's first float; the next one is results_ floats further
  const int results_;
};

/// A block's share of a layer, for 1, 2 or up to 4 rows of x.
template <class T, int kBits, bool kGateUp, int kRows>
class BlockQuantGemv {
 public:
  using W = BlockQuant<kBits>;
  static constexpr int kOutputs = kNTileOutputs<kGateUp>;
  static constexpr bool kIntegers = kTakesIntegers<kBits>;

  template <bool kNorm>
  static __device__ __forceinline__ void Run(const GemmParams& a, int stages, BlockPosition at) {
    // With less than 128-byte alignment, bulk copies run at three quarters of the memory bandwidth.
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ float norm_sums[(kIntegers ? kRows : 2) * kWarps];
    __shared__ alignas(8) uint64_t barriers[kWarps * kMaxStages];
    __shared__ ZeroInputs zeros;
    static_assert(sizeof(norm_sums) + sizeof(barriers) + sizeof(zeros) <= kGemvStaticBytes);
    const int rows = kIntegers && kRows <= 2 ? kRows : a.rows;
    const int warp = threadIdx.x / 32, all = kGateUp ? a.total / 2 : a.total;
    const uint32_t ring = SharedAddress(shared + warp * stages * kKTileBytes<kBits>);
    const KTileRuns runs(a.k, (all + kOutputs - 1) / kOutputs, at);
    const KTileRun run(runs, warp);
    Stream stream(a, runs, run, ring, SharedAddress(barriers + warp * kMaxStages), stages);
#pragma unroll 1
    for (int n = 0; n < stages - 1; ++n) stream.Fetch();  // weights need not wait for the preceding kernel

    T* x = reinterpret_cast<T*>(shared + kWarps * stages * kKTileBytes<kBits>);
    float* sums = reinterpret_cast<float*>(x + rows * a.x_shared_stride);
    float* after_x = sums + (runs.tiles + kWarps) * rows * kNTileRows;
    GemvResult<kGateUp> own(a, rows, runs, threadIdx.x);
    // forces evaluation here
    asm volatile("" : "+r"(own.row), "+r"(own.at), "+r"(own.output), "+r"(own.first_sum), "+r"(own.sums));
    const GemvEpilogue<T, W, kGateUp> extras(a, after_x + rows * IntegerRowFloats<kBits>(a.x_shared_stride),
                                             min(runs.tiles * rows * kOutputs, kBlockThreads));
    extras.PrefetchScales(own);
    const LanePositions<kBits> places(ring);
    if constexpr (kIntegers) {
      if (threadIdx.x < ZeroInputs::kSixteens) zeros.sixteens()[threadIdx.x] = {0, 0, 0, 0};
      const IntegerRows<kBits> integers(rows, a.x_shared_stride, x, after_x);
      const typename Sums::Places own_x(rows, integers, zeros.sixteens(), ring);
      IntegerInputs<T, kBits, kRows> inputs(a, integers);
      if constexpr (kNorm) inputs.LoadNormWeights();
      GridDependencySync();
      kNorm ? inputs.LoadNormed(norm_sums) : inputs.Load();
      extras.PrefetchOld(own);
      Multiply(rows, runs, run, stream, places, own_x, sums);
    } else {
      const typename Sums::Places own_x(a, x);
      NormVectors<kNormVectors> vectors;
      if constexpr (kNorm) vectors.Load(a.norm_weight, a.norm_bias, a.k, a.layer_norm);
      const KTileInputs<T> inputs(a, x);
      GridDependencySync();
      kNorm ? inputs.LoadNormed(vectors, norm_sums) : inputs.Load();
      extras.PrefetchOld(own);
      Multiply(rows, runs, run, stream, places, own_x, sums);
    }
    extras.Wait();
    __syncthreads();
    if (own.there) Finish(rows, extras, own, true, sums);
#pragma unroll 1
    for (int i = threadIdx.x + kBlockThreads; i < runs.tiles * rows * kOutputs; i += kBlockThreads) {
      const GemvResult<kGateUp> place(a, rows, runs, i);
      if (place.there) Finish(rows, extras, place, false, sums);
    }
  }

 private:
  using Stream = KTileStream<kBits, kGateUp>;
  using Sums = SumsOf<T, kBits, kRows>;

  /// Multiplies a warp's run. There is one partial-sum slot per (tile, warp) that intersect; from one slot to the next
  /// either the tile or the warp advances. A warp without K tiles stores zeros for the tile where its run would start.
  static __device__ __forceinline__ void Multiply(int rows, const KTileRuns& runs, KTileRun run, Stream& stream,
                                                  const LanePositions<kBits>& places, const typename Sums::Places& own,
                                                  float* sums) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    do {
      Sums own_sums;
#pragma unroll 1
      for (; run.left > 0 && run.k_tile < runs.k_tiles; ++run.k_tile, --run.left) {
        const uint32_t tiles = stream.Next();
        stream.Fetch();
        own_sums.Add(run.k_tile, own, places, tiles);
      }
      own_sums.Store(sums + (run.place + warp) * rows * kNTileRows, rows, lane);
      run.k_tile = 0, ++run.place;
    } while (run.left > 0);
  }
  static __device__ __forceinline__ void Finish(int rows, const GemvEpilogue<T, W, kGateUp>& extras,
                                                const GemvResult<kGateUp>& place, bool own, const float* sums) {
    extras.Finish(place, own, [&](int at) {
      const float* from = sums + (place.first_sum * rows + place.row) * kNTileRows + at;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kWarps; ++i) {
        if (i < place.sums) sum += from[i * rows * kNTileRows];
      }
      return sum;
    });
  }
};

template <class T, int kBits, bool kNorm, bool kGateUp, int kRows>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerProcessor) BlockQuantGemvKernel(GemmParams a, int stages) {
  // At once: the next kernel prefetches its weights as soon as an SM has room.
  TriggerProgrammaticLaunch();
  BlockQuantGemv<T, kBits, kGateUp, kRows>::template Run<kNorm>(
      a, stages, {static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x)});
}
/// Two layers of the same rows in one launch; the first `blocks` blocks compute the first layer.
template <class T, int kBits, int kNextBits, bool kNorm, int kRows>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerProcessor)
    TwoBlockQuantGemvKernel(GemmParams a, GemmParams next, int stages, int next_stages, int blocks) {
  TriggerProgrammaticLaunch();
  const int block = static_cast<int>(blockIdx.x);
  if (block < blocks) {
    BlockQuantGemv<T, kBits, false, kRows>::template Run<kNorm>(a, stages, {block, blocks});
  } else {
    BlockQuantGemv<T, kNextBits, false, kRows>::template Run<kNorm>(
        next, next_stages, {block - blocks, static_cast<int>(gridDim.x) - blocks});
  }
}

/// Calls body with the number of rows that a kernel is specialized for; 8-bit weights have a single variant.
template <int kBits, class Body>
void WithRows(const LinearTile& tile, const Body& body) {
  if (!kTakesIntegers<kBits> || tile.rows > 2) return body(std::integral_constant<int, kMaxGemvRows>());
  if constexpr (kTakesIntegers<kBits>) {
    tile.rows == 1 ? body(std::integral_constant<int, 1>()) : body(std::integral_constant<int, 2>());
  }
}
template <class T, int kBits, bool kNorm, bool kGateUp>
void LaunchBlockQuantGemvOf(const Launcher& on, const GemmParams& a, const LinearTile& tile) {
  WithRows<kBits>(tile, [&](auto rows) {
    Launch(on, BlockQuantGemvKernel<T, kBits, kNorm, kGateUp, rows()>, Grid(tile.blocks), kBlockThreads,
           tile.shared_bytes, a, tile.stages);
  });
}
template <class T, int kBits>
void LaunchBlockQuantGemv(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  const GemmParams a = ToGemvParams(args, kKTileInputs);
  CHECK_GE(tile.stages, kMinStages);
  if (args.epilogue == LinearEpilogue::kSiluMultiply) {
    return args.norm ? LaunchBlockQuantGemvOf<T, kBits, true, true>(on, a, tile)
                     : LaunchBlockQuantGemvOf<T, kBits, false, true>(on, a, tile);
  }
  return args.norm ? LaunchBlockQuantGemvOf<T, kBits, true, false>(on, a, tile)
                   : LaunchBlockQuantGemvOf<T, kBits, false, false>(on, a, tile);
}

template <class T, int kBits, int kNextBits>
void LaunchTwoBlockQuantGemvOf(const Launcher& on, const GemmArgs& args, const GemmArgs& next_args,
                               const LinearPlan& plan) {
  const GemmParams a = ToGemvParams(args, kKTileInputs), next = ToGemvParams(next_args, kKTileInputs);
  const LinearTile &own = plan.tile, &other = plan.partner_tile;
  CHECK(own.stages >= kMinStages && other.stages >= kMinStages);
  WithRows<kBits>(own, [&](auto rows) {
    const auto kernel = args.norm ? TwoBlockQuantGemvKernel<T, kBits, kNextBits, true, rows()>
                                  : TwoBlockQuantGemvKernel<T, kBits, kNextBits, false, rows()>;
    Launch(on, kernel, Grid(own.blocks + other.blocks), kBlockThreads, std::max(own.shared_bytes, other.shared_bytes),
           a, next, own.stages, other.stages, own.blocks);
  });
}

}  // namespace ringside::cuda
