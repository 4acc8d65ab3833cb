// The streaming kernel of weights in tiles (grouped_weights.cuh), up to 4 rows of x: y (+)= x W^T + bias. A portion is
// two tiles of 256 inputs: 16 outputs, or 8 gates and their ups. A block has every n-th pair of tiles and cuts all
// their portions into eight runs of the same length, one a warp, which come through a ring of the warp's own. A warp
// leaves its sums of a tile, of all or some of its portions, in shared memory; at one barrier before the end they are
// added up in the order of the warps. So a row's bits do not depend on how many rows there are. On the tensor cores 16
// rows of W are the left operand and x is the right one, repeated where there are fewer than 8 rows; the scales
// multiply the products of each group of inputs, and the offsets the sums of these inputs, which a block finds before.
//
// Measured on an H200, layers of an 8B model in Q4_K at one row: tiles come at 4.2 TB/s, and each layer takes 4.5 us
// besides: 2 to 3 until the rows of x are there, 1 for the sums at the end. Of two blocks on a multiprocessor the
// second is slower by a fifth, for issuing instructions is what warps wait for: 16 of them are just enough for the
// memory. Left: the next layer's weights fetched into the L2 cache meanwhile; several layers in one launch
// (BENCHMARKS.md).
//
// In front and behind: as in stream_linear.cuh.
#pragma once

#include <algorithm>
#include <utility>

#include "kernels/cuda/linear/stream/portion_inputs.cuh"
#include "kernels/cuda/linear/stream/portion_stream.cuh"
#include "kernels/cuda/linear/stream/portion_sums.cuh"
#include "kernels/cuda/linear/stream/stream_results.cuh"

namespace ringside::cuda {

/// How the device divides a layer.
struct StreamDivision {
  int blocks = 0, slots = 0;
  size_t shared_bytes = 0;
};
inline int TilesOf(const Skinny& a, bool pairs) {
  const int all = pairs ? a.total / 2 : a.total, outputs = kPortionRows / (pairs ? 2 : 1);
  return (all + outputs - 1) / outputs;
}
/// Floats that a thread's first result needs beside its sums: two scales, and what it is added to.
constexpr int kExtras = 3;
/// At least what a block has of shared memory beside what it is launched with: barriers, a norm's sums. Kernels of two
/// layers have it twice.
constexpr size_t kStaticBytes = 512;

/// Over up to so many blocks of so much shared memory, and of so many slots.
template <int kBits>
StreamDivision DivideStream(const Skinny& a, bool pairs, int most_blocks, size_t most_bytes, int most_slots) {
  StreamDivision out;
  const int tiles = TilesOf(a, pairs), ring = kWarps * kPortionBytes<kBits>;
  out.blocks = std::min(tiles, most_blocks);
  const int own = (tiles + out.blocks - 1) / out.blocks;
  const int results = std::min(own * a.rows * kPortionRows / (pairs ? 2 : 1), kBlockThreads);
  const size_t beside = sizeof(float) * static_cast<size_t>(kExtras * results) +
                        static_cast<size_t>(a.rows) *
                            (sizeof(float) * kPortionRows * (own + kWarps) + sizeof(uint16_t) * a.x_shared_stride +
                             sizeof(float) * a.x_shared_stride / kSumInputs<kBits>);
  out.slots = beside > most_bytes ? 0 : std::min(most_slots, static_cast<int>(most_bytes - beside) / ring);
  out.shared_bytes = beside + static_cast<size_t>(out.slots) * ring;
  return out;
}
/// Over the whole device: two blocks a multiprocessor, or one where x leaves no room for two. Portions of one or two
/// rows, and those without offsets, are computed sooner than they come: there one block with more of them under way is
/// better than two with one each.
template <int kBits>
StreamDivision DivideStream(const Launcher& on, const Skinny& a, bool pairs) {
  const int wanted = a.rows <= 2 || !kHasOffsets<Grouped<kBits>> ? kSlotsOfTwo : kFewestSlots;
  const StreamDivision two = DivideStream<kBits>(a, pairs, kBlocksPerProcessor * on.multiprocessors,
                                                 MostStreamBytes(on.large) - kStaticBytes, kSlotsOfTwo);
  if (two.slots >= wanted) return two;
  const StreamDivision one =
      DivideStream<kBits>(a, pairs, on.multiprocessors, SharedBytes(on.large) - kStaticBytes, kMostSlots);
  return one.slots > two.slots ? one : two;
}

/// Where a thread's i-th result lies, and the sums that make it.
template <bool kPairs>
struct StreamedPlace {
  int row, at, output;  // of x; in its tile; of the layer
  int first_sum, sums;  // in units of a tile's sums for all rows: one each for the warps that have a part of the tile
  int first_warp;       // of these
  bool there;

  __device__ __forceinline__ StreamedPlace(const Skinny& a, const PortionRuns& runs, int i) {
    constexpr int kOutputs = kPortionOutputs<kPairs>;
    const int tile = i / (a.rows * kOutputs), rest = i - tile * a.rows * kOutputs;
    row = rest / kOutputs, at = rest % kOutputs, output = runs.Tile(tile) * kOutputs + at;
    there = tile < runs.tiles && output < (kPairs ? a.total / 2 : a.total);
    first_warp = runs.WarpOf(tile * runs.portions), first_sum = tile + first_warp;
    sums = runs.WarpOf((tile + 1) * runs.portions - 1) - first_warp + 1;
  }
};

/// What a thread's first result needs beside the sums, on its way to shared memory while they are computed.
template <class T, class W, bool kPairs>
class StreamedExtras {
 public:
  __device__ __forceinline__ StreamedExtras(const Skinny& a, float* shared, int results)
      : a_(a), shared_(shared + threadIdx.x), results_(results) {}
  __device__ __forceinline__ void AskForScales(const StreamedPlace<kPairs>& place) const {
    if (!place.there) return;
    CopyFloatAsync(shared_, ScalePointer(a_, place.output));
    if (kPairs) CopyFloatAsync(shared_ + results_, ScalePointer(a_, a_.total / 2 + place.output));
  }
  /// What the result is added to.
  __device__ __forceinline__ void AskForOld(const StreamedPlace<kPairs>& place) const {
    if (!place.there || !asks_for_old()) return;
    CopyFloatAsync(shared_ + 2 * results_, static_cast<const float*>(a_.y) + place.row * a_.y_stride + place.output);
  }
  __device__ __forceinline__ void Wait() const { WaitForAllCopies(); }

  /// The sums times their scales, and all that follows, to where it goes; `own`: whether it is the first result.
  template <class SumOf>
  __device__ __forceinline__ void Finish(const StreamedPlace<kPairs>& place, bool own, const SumOf& sum_of) const {
    constexpr int kOutputs = kPortionOutputs<kPairs>;
    const int half = a_.total / 2;
    TileResult result{.row = place.row, .place = place.at, .output = place.output, .there = true};
    if (a_.bias != nullptr) result.bias = a_.bias[place.output];
    if (kPairs && a_.bias != nullptr) result.up_bias = a_.bias[half + place.output];
    if (!kPairs && a_.accumulate) {
      result.old = own && asks_for_old() ? shared_[2 * results_]
                                         : LoadElement(a_.y, a_.y_dtype, place.row * a_.y_stride + place.output);
    }
    const float scale = own ? shared_[0] : *ScalePointer(a_, place.output);
    float up = 0;
    if constexpr (kPairs) {
      up = sum_of(kOutputs + place.at) * kUnitOf<T, W> *
           (own ? shared_[results_] : *ScalePointer(a_, half + place.output));
    }
    result.Store<T, kPairs>(a_, sum_of(place.at) * kUnitOf<T, W> * scale, up);
  }

 private:
  __device__ __forceinline__ bool asks_for_old() const { return !kPairs && a_.accumulate && a_.y_dtype == DType::kF32; }

  const Skinny& a_;
  float* const shared_;  // the thread's first; the next is so many results further
  const int results_;
};

/// A block's share of a layer.
template <class T, int kBits, bool kPairs>
class GroupedStream {
 public:
  using W = Grouped<kBits>;
  static constexpr int kOutputs = kPortionOutputs<kPairs>;

  template <bool kNorm>
  static __device__ __forceinline__ void Run(const Skinny& a, int slots, BlockPlace at) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ float norm_sums[2 * kWarps];
    __shared__ alignas(8) uint64_t barriers[kWarps * kMostSlots];
    static_assert(sizeof(norm_sums) + sizeof(barriers) <= kStaticBytes);
    const int warp = threadIdx.x / 32, all = kPairs ? a.total / 2 : a.total;
    const uint32_t ring = SharedAddress(shared + warp * slots * kPortionBytes<kBits>);
    const PortionRuns runs(a, (all + kOutputs - 1) / kOutputs, at);
    T* x = reinterpret_cast<T*>(shared + kWarps * slots * kPortionBytes<kBits>);
    float* sums = reinterpret_cast<float*>(x + a.rows * a.x_shared_stride);
    float* input_sums = sums + (runs.tiles + kWarps) * a.rows * kPortionRows;

    NormVectors<kNormVectors> vectors;
    if constexpr (kNorm) vectors.Load(a.norm_weight, a.norm_bias, a.k, a.layer_norm);
    Stream stream(a, runs, warp, ring, SharedAddress(barriers + warp * kMostSlots), slots);
    for (int n = 0; n < slots - 1; ++n) stream.Fetch();  // weights do not wait for the step before
    const PortionInputs<T, kBits> inputs(a, x, input_sums);
    StreamedPlace<kPairs> own(a, runs, threadIdx.x);
    asm volatile("" : "+r"(own.row), "+r"(own.at), "+r"(own.output), "+r"(own.first_sum), "+r"(own.sums));  // now
    const StreamedExtras<T, W, kPairs> extras(a, input_sums + a.rows * (a.x_shared_stride / kSumInputs<kBits>),
                                              min(runs.tiles * a.rows * kOutputs, kBlockThreads));
    extras.AskForScales(own);
    WaitForStep();
    if constexpr (kNorm) {
      inputs.LoadNormed(vectors, norm_sums);
    } else {
      inputs.Load();
    }
    extras.AskForOld(own);
    Multiply(a, runs, stream, ring, x, input_sums, sums);
    extras.Wait();
    __syncthreads();
    if (own.there) Finish(a, runs, extras, own, true, sums);
    for (int i = threadIdx.x + kBlockThreads; i < runs.tiles * a.rows * kOutputs; i += kBlockThreads) {
      const StreamedPlace<kPairs> place(a, runs, i);
      if (place.there) Finish(a, runs, extras, place, false, sums);
    }
  }

 private:
  using Stream = PortionStream<kBits, kPairs>;

  /// A warp's run. Its sums of a tile go to a place for each that a tile and a warp have in common: from one such place
  /// to the next, one of the two goes on.
  static __device__ __forceinline__ void Multiply(const Skinny& a, const PortionRuns& runs, Stream& stream,
                                                  uint32_t ring, const T* x, const float* input_sums, float* sums) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const LanePlaces<kBits> places(ring);
    const uint32_t row_sums_bytes = a.x_shared_stride / kSumInputs<kBits> * sizeof(float);
    uint32_t own_x = SharedAddress(x + min(lane % 8, a.rows - 1) * a.x_shared_stride + lane / 8 * 8),
             own_inputs = SharedAddress(input_sums + lane % 4 * (32 / kSumInputs<kBits>));
    asm volatile("" : "+r"(own_x), "+r"(own_inputs));
    int left = runs.Begin(warp + 1) - runs.Begin(warp);
    int place = runs.Begin(warp) / runs.portions, portion = runs.Begin(warp) % runs.portions;
    while (left > 0) {
      PortionSums<T, kBits> own_sums;
      for (; left > 0 && portion < runs.portions; ++portion, --left) {
        const uint32_t tiles = stream.Next();
        stream.Fetch();
        const uint32_t portion_x = own_x + portion * (kPortionInputs * sizeof(T));
#pragma unroll
        for (int chunk = 0; chunk < kPortionChunks; ++chunk) {
          own_sums.AddProducts(portion_x + chunk * (kTileInputs * sizeof(T)), places,
                               tiles + chunk * kPairOfTiles<kBits>);
        }
        if constexpr (kHasOffsets<W>) {
          own_sums.AddOffsets(a.rows, own_inputs + portion * (kPortionInputs / kSumInputs<kBits> * sizeof(float)),
                              row_sums_bytes, places, tiles);
        }
      }
      own_sums.Store(sums + (place + warp) * a.rows * kPortionRows, a.rows, lane);
      portion = 0, ++place;
    }
  }
  static __device__ __forceinline__ void Finish(const Skinny& a, const PortionRuns& runs,
                                                const StreamedExtras<T, W, kPairs>& extras,
                                                const StreamedPlace<kPairs>& place, bool own, const float* sums) {
    const bool few = runs.tiles * runs.portions < kWarps;  // some warps have none
    extras.Finish(place, own, [&](int at) {
      const float* from = sums + (place.first_sum * a.rows + place.row) * kPortionRows + at;
      float sum = 0;
      for (int i = 0; i < place.sums; ++i) {
        if (few && runs.Begin(place.first_warp + i) == runs.Begin(place.first_warp + i + 1)) continue;
        sum += from[i * a.rows * kPortionRows];
      }
      return sum;
    });
  }
};

template <class T, int kBits, bool kNorm, bool kPairs>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerProcessor) StreamGroupedKernel(Skinny a, int slots) {
  // At once: what comes next fetches its own weights meanwhile, as far as a multiprocessor has room.
  LetNextStart();
  GroupedStream<T, kBits, kPairs>::template Run<kNorm>(a, slots,
                                                       {static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x)});
}
/// Two layers of the same rows; the first `blocks` blocks are the first's.
template <class T, int kBits, int kNextBits, bool kNorm>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerProcessor)
    StreamTwoGroupedKernel(Skinny a, Skinny next, int slots, int next_slots, int blocks) {
  LetNextStart();
  const int block = static_cast<int>(blockIdx.x);
  if (block < blocks) {
    GroupedStream<T, kBits, false>::template Run<kNorm>(a, slots, {block, blocks});
  } else {
    GroupedStream<T, kNextBits, false>::template Run<kNorm>(next, next_slots,
                                                            {block - blocks, static_cast<int>(gridDim.x) - blocks});
  }
}

template <class T, int kBits, bool kNorm, bool kPairs>
void LaunchStreamGroupedOf(const Launcher& on, const Skinny& a) {
  const StreamDivision division = DivideStream<kBits>(on, a, kPairs);
  Launch(on, StreamGroupedKernel<T, kBits, kNorm, kPairs>, Grid(division.blocks), kBlockThreads, division.shared_bytes,
         a, division.slots);
}
template <class T, int kBits>
void LaunchStreamGrouped(const Launcher& on, const SkinnyLinear& args) {
  const Skinny a = NarrowForStream(args, kPortionInputs);
  if (args.after == AfterLinear::kSiluMultiply) {
    return args.norm ? LaunchStreamGroupedOf<T, kBits, true, true>(on, a)
                     : LaunchStreamGroupedOf<T, kBits, false, true>(on, a);
  }
  return args.norm ? LaunchStreamGroupedOf<T, kBits, true, false>(on, a)
                   : LaunchStreamGroupedOf<T, kBits, false, false>(on, a);
}

/// How the device divides two layers, so that each gets blocks by its bytes.
template <int kBits, int kNextBits>
std::pair<StreamDivision, StreamDivision> DivideTwo(const Launcher& on, const Skinny& a, const Skinny& next) {
  const int all = kBlocksPerProcessor * on.multiprocessors, own_bytes = TilesOf(a, false) * TileOf<kBits>::kBytes,
            next_bytes = TilesOf(next, false) * TileOf<kNextBits>::kBytes;
  const int blocks = std::clamp(static_cast<int>(int64_t{all} * own_bytes / (own_bytes + next_bytes)), 1, all - 1);
  const size_t most = MostStreamBytes(on.large) - 2 * kStaticBytes;
  return {DivideStream<kBits>(a, false, blocks, most, kSlotsOfTwo),
          DivideStream<kNextBits>(next, false, all - blocks, most, kSlotsOfTwo)};
}
template <class T, int kBits, int kNextBits>
void LaunchStreamTwoGroupedOf(const Launcher& on, const SkinnyLinear& args, const SkinnyLinear& next_args) {
  const Skinny a = NarrowForStream(args, kPortionInputs), next = NarrowForStream(next_args, kPortionInputs);
  const auto [own, other] = DivideTwo<kBits, kNextBits>(on, a, next);
  const auto kernel = args.norm ? StreamTwoGroupedKernel<T, kBits, kNextBits, true>
                                : StreamTwoGroupedKernel<T, kBits, kNextBits, false>;
  Launch(on, kernel, Grid(own.blocks + other.blocks), kBlockThreads, std::max(own.shared_bytes, other.shared_bytes), a,
         next, own.slots, other.slots, own.blocks);
}

}  // namespace ringside::cuda
