// Distributes the tiles of the experts' weights over blocks (tiled_experts.cu): equal runs over the tiles of all
// groups; a segment is the part of a run within one group. Included by it only.
#pragma once

#include "kernels/cuda/experts/expert_products_inl.cuh"
#include "kernels/cuda/experts/segment.h"
#include "kernels/cuda/linear/gemv_quantized/k_tile_stream.cuh"

namespace ringside::cuda {

template <bool kIn>
constexpr int kTileOutputs = kNTileOutputs<kIn>;

template <bool kIn>
__device__ __forceinline__ int TilesOf(const ExpertsCall& a, const ExpertRows& group) {
  if (group.count == 0) return 0;
  if (!kIn) return static_cast<int>(a.x.cols + kTileOutputs<kIn> - 1) / kTileOutputs<kIn>;
  const int64_t inner = group.expert + 1 == a.plan.router.cols ? a.plan.last_inner : a.plan.inner;
  return static_cast<int>(a.plan.Pairs(inner) + kTileOutputs<kIn> - 1) / kTileOutputs<kIn>;
}

template <class T, bool kIn, int kOwnWarps, int kMaxSplitParts>
__device__ __forceinline__ void FillSegment(const ExpertsCall& a, const ExpertRows& group, int first, int tiles,
                                            int before, Segment& to) {
  to.rows = group;
  to.expert = a.plan.packed[group.expert];
  const ExpertProduct<T, kIn> product(a, group, to.expert);
  to.first_output = first * kTileOutputs<kIn>, to.tiles = tiles, to.before = before;
  to.outputs = product.outputs;
  to.inputs = product.inputs, to.across = static_cast<int>(TilesAcross(to.inputs));
  to.k_tiles = (to.across + kKTileChunks - 1) / kKTileChunks, to.parts = min(to.k_tiles, kMaxSplitParts);
  to.step = {kOwnWarps / to.parts, kOwnWarps % to.parts};
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const PackedMatrix& matrix = product.Matrix(kIn && h == 1);
    to.weights[h] = static_cast<const unsigned char*>(matrix.data);
    to.first_row[h] = matrix.first_row + to.first_output + (kIn ? 0 : h * kTileRows);
  }
#pragma unroll 1
  for (int r = 0; r < group.count; ++r) {
    const int at = group.first + r;
    to.row_at[r] = kIn ? a.order[at] / a.plan.experts_per_row : at;
    if constexpr (kIn) to.target[r] = at;  // else as FetchTargets
  }
}

/// Builds the segments of the block's run, in any order; returns their number. The threads divide the groups.
template <class T, bool kIn, int kThreads, int kMaxSplitParts>
__device__ __forceinline__ int ListSegments(const ExpertsCall& a, Segment* list) {
  constexpr int kOwnWarps = kThreads / 32;
  __shared__ int warp_tiles[kOwnWarps], listed;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, each = (a.group_count + kThreads - 1) / kThreads;
  const int first_group = static_cast<int>(threadIdx.x) * each, end_group = min(first_group + each, a.group_count);
  ExpertRows group = {};  // the thread's last group; usually the only one
  int own = 0;
#pragma unroll 1
  for (int g = first_group; g < end_group; ++g) own += TilesOf<kIn>(a, group = LoadGroup(a.groups + g));
  const int end = ScanOverWarp(own);
  if (lane == 31) warp_tiles[warp] = end;
  if (threadIdx.x == 0) listed = 0;
  __syncthreads();
  int begin = end - own, all = 0;
#pragma unroll
  for (int w = 0; w < kOwnWarps; ++w) {
    if (w < warp) begin += warp_tiles[w];
    all += warp_tiles[w];
  }
  const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x), share = all / blocks,
            more = all % blocks;  // blocks that have one more tile
  const int run_begin = block * share + min(block, more), run_end = run_begin + share + (block < more ? 1 : 0);
#pragma unroll 1
  for (int g = first_group; g < end_group && begin < run_end; ++g) {
    if (each > 1) group = LoadGroup(a.groups + g);
    const int tiles = TilesOf<kIn>(a, group), first = max(begin, run_begin), last = min(begin + tiles, run_end);
    if (first < last)
      FillSegment<T, kIn, kOwnWarps, kMaxSplitParts>(a, group, first - begin, last - first, first - run_begin,
                                                     list[atomicAdd(&listed, 1)]);
    begin += tiles;
  }
  __syncthreads();
  return listed;
}

/// A warp's position among a segment's K tiles: it has every kOwnWarps-th part of all tiles in order.
template <int kOwnWarps>
struct KTilePosition {
  int tile = 0, part = 0, k_tile = 0;

  KTilePosition() = default;
  __device__ __forceinline__ explicit KTilePosition(const Segment& segment) {
    const int warp = threadIdx.x / 32;
    tile = warp / segment.parts, part = warp - tile * segment.parts, k_tile = part;
  }
  __device__ __forceinline__ void NextPart(int parts, const PartStep& step) {
    part += step.parts, tile += step.tiles;
    if (part >= parts) part -= parts, ++tile;
    k_tile = part;
  }
};

/// A warp's K tiles of all segments, streamed through its pipeline stages.
template <bool kIn, int kBits, int kOwnWarps>
class SegmentStream {
 public:
  __device__ __forceinline__ SegmentStream(const Segment* list, int segments, uint32_t ring, uint32_t barriers,
                                           int stages)
      : ring_(ring, barriers, stages), segment_(list), end_(list + segments) {
    if (segment_ < end_) Enter();
  }
  /// Starts the copies of the next K tile, or does nothing past the last.
  __device__ __forceinline__ void Fetch() {
    if (segment_ < end_) {
      KTileSource from;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = first_row_[h] + at_.tile * kTileOutputs<kIn>;
        const uint32_t tile =
            (row / kPanelRows * across_ + at_.k_tile * kKTileChunks) * kPanelTiles + row % kPanelRows / kTileRows;
        from.tiles[h] = weights_[h] + static_cast<uint64_t>(tile) * TileOf<kBits>::kBytes;
        from.scales[h] = scales_[h] + TileScaleAt(row, at_.k_tile * kKTileChunks, across_ * kTileInputs);
      }
      ring_.Copy(from, at_.k_tile * kKTileChunks + 1 < across_);
      at_.k_tile += segment_->parts;
      if (at_.k_tile >= segment_->k_tiles) {
        at_.NextPart(segment_->parts, segment_->step);
        if (at_.tile >= segment_->tiles && ++segment_ < end_) Enter();
      }
    }
    ring_.Advance();
  }
  __device__ __forceinline__ uint32_t Next() { return ring_.Next(); }

 private:
  /// Advances to the first segment from here on that has a part for this warp.
  __device__ __forceinline__ void Enter() {
    do {
      at_ = KTilePosition<kOwnWarps>(*segment_);
    } while (at_.tile >= segment_->tiles && ++segment_ < end_);
    if (segment_ == end_) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) weights_[h] = segment_->weights[h], first_row_[h] = segment_->first_row[h];
    const PackedExpert& expert = segment_->expert;
    scales_[0] = kIn ? expert.gate.units : expert.out.units, scales_[1] = kIn ? expert.up.units : expert.out.units;
    across_ = segment_->across;
  }

  KTilePipeline<kBits> ring_;
  const Segment *segment_, *const end_;
  KTilePosition<kOwnWarps> at_;
  const unsigned char* weights_[2] = {};
  const float* scales_[2] = {};  // of E4M3 tiles
  int first_row_[2] = {}, across_ = 0;
};

/// Prefetches the scales of a segment's results, [tile][kNTileRows] floats; available after WaitForAllCopies. Results
/// of E4M3 tiles have none.
template <bool kIn, int kBits, int kThreads>
__device__ __forceinline__ void FetchUnits(const Segment& segment, float* units) {
#pragma unroll 1
  for (int i = threadIdx.x; i < segment.tiles * kNTileRows; i += kThreads) {
    if constexpr (TileOf<kBits>::kHasTileScale) {
      units[i] = 1;
      continue;
    }
    const int tile = i / kNTileRows, at = i % kNTileRows, h = at / kTileRows;
    const PackedMatrix& matrix = !kIn ? segment.expert.out : h == 0 ? segment.expert.gate : segment.expert.up;
    const int output = segment.first_output + tile * kTileOutputs<kIn> + (kIn ? at % kTileRows : at);
    if (kIn || output < segment.outputs) CopyFloatAsync(units + i, matrix.units + matrix.first_row + output);
  }
}

/// Prefetches the destinations of the second GEMM's results; available after WaitForAllCopies.
/// REQUIRES: the grid dependency sync. Before it the L1 cache may hold the pairs of an earlier call.
__device__ __forceinline__ void FetchTargets(const ExpertsCall& a, Segment& segment) {
  const int r = static_cast<int>(threadIdx.x);
  if (r >= segment.rows.count) return;
  CopyFloatAsync(reinterpret_cast<float*>(segment.target + r),
                 reinterpret_cast<const float*>(a.order + segment.rows.first + r));
}

/// Epilogue of a round's tiles, from the partial sums of all parts: [tile][part][row][kNTileRows].
template <class T, bool kIn, int kThreads, int kMaxSplitParts>
__device__ __forceinline__ void FinishRound(const ExpertsCall& a, const Segment& segment, int first_tile, int tiles,
                                            const float* sums, const float* units) {
  constexpr int kOutputs = kTileOutputs<kIn>;
  const ExpertProduct<T, kIn> product(a, segment.rows, segment.expert);
  const int rows = segment.rows.count, parts = segment.parts;
#pragma unroll 1
  for (int i = threadIdx.x; i < tiles * rows * kOutputs; i += kThreads) {
    const int at = i % kOutputs, tile = i / kOutputs / rows, row = i / kOutputs - tile * rows;
    const int output = segment.first_output + (first_tile + tile) * kOutputs + at;
    if (output >= segment.outputs) continue;
    const float* from = sums + (tile * parts * rows + row) * kNTileRows + at;
    const float* by = units + (first_tile + tile) * kNTileRows + at;
    float sum = 0, up_sum = 0;
#pragma unroll
    for (int p = 0; p < kMaxSplitParts; ++p) {
      if (p < parts) sum += from[p * rows * kNTileRows];
      if (kIn && p < parts) up_sum += from[p * rows * kNTileRows + kOutputs];
    }
    product.Store(segment.target[row], output, sum * by[0], kIn ? up_sum * by[kOutputs] : 0.0f);
  }
}

}  // namespace ringside::cuda
