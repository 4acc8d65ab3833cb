// Streams block-quantized weights into shared memory (block_quant_gemv.cuh, experts). Included by .cu files only.
#pragma once

#include "kernels/cuda/linear/gemv_quantized/k_tile_inputs.cuh"
#include "kernels/cuda/linear/tensor_boxes.cuh"

namespace ringside::cuda {

template <bool kGateUp>
constexpr int kNTileOutputs = kNTileRows / (kGateUp ? 2 : 1);

/// A block's index among the blocks of its layer.
struct BlockPosition {
  int block, blocks;
};
/// The N tiles of a block, every `blocks`-th, and the division of their K tiles into one run per warp.
struct KTileRuns {
  BlockPosition at;
  int k_tiles, tiles;  // K tiles per N tile; N tiles of the block

  __device__ __forceinline__ KTileRuns(int k, int all_tiles, BlockPosition place)
      : at(place),
        k_tiles((k + kKTileInputs - 1) / kKTileInputs),
        tiles((all_tiles - place.block + place.blocks - 1) / place.blocks) {}
  __device__ __forceinline__ int Begin(int warp) const { return tiles * k_tiles * warp / kWarps; }
  /// The warp that processes the block's n-th K tile.
  __device__ __forceinline__ int WarpOf(int n) const { return (n * kWarps + kWarps - 1) / (tiles * k_tiles); }
  /// The block's i-th N tile.
  __device__ __forceinline__ int Tile(int i) const { return at.block + i * at.blocks; }
};

/// A warp's run: number of K tiles and start.
struct KTileRun {
  int left, place, k_tile;  // index of the block's N tile; K tile within it

  __device__ __forceinline__ KTileRun(const KTileRuns& runs, int warp)
      : left(runs.Begin(warp + 1) - runs.Begin(warp)),
        place(runs.Begin(warp) / runs.k_tiles),
        k_tile(runs.Begin(warp) - place * runs.k_tiles) {}
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr bool kBulkCopies = true;
#else
constexpr bool kBulkCopies = false;
#endif

/// The first two tiles of a K tile in device memory, and for E4M3 the scales of these and of the other two.
struct KTileSource {
  const unsigned char* tiles[2];
  const float* scales[2];
};

/// A warp's pipeline stages in shared memory. K tiles are fetched as far ahead as there are stages, by bulk copies
/// where available, otherwise by 16-byte copies.
template <int kBits>
class KTilePipeline {
 public:
  static_assert(kKTileBytes<kBits> % 128 == 0, "pipeline stages start at multiples of 128 bytes");
  static constexpr int kChunkBytes = kPanelTiles * TileOf<kBits>::kBytes;  // bytes between consecutive tiles of a row

  /// `barriers`: one per stage.
  __device__ __forceinline__ KTilePipeline(uint32_t ring, uint32_t barriers, int stages)
      : ring_(ring), barriers_(barriers), stages_(stages) {
    if (kBulkCopies) {
      if (ElectOne()) {
#pragma unroll 1
        for (int i = 0; i < stages; ++i) InitBarrier(barriers + i * 8, 1);
        FenceBarriers();
      }
      __syncwarp();
    }
  }
  /// Starts the copies of a K tile into the next stage. If it is not whole (the inputs end in its middle), the first
  /// half is copied again instead of the second.
  __device__ __forceinline__ void Copy(const KTileSource& from, bool whole) const {
    if constexpr (kBulkCopies) {
      CopyTiles(from, whole);
    } else {
      CopyChunks(from, whole);
    }
  }
  /// Advances to the next stage, whether or not anything was copied.
  __device__ __forceinline__ void Advance() {
    if constexpr (!kBulkCopies) CommitCopies();
    fetch_stage_ = fetch_stage_ + 1 == stages_ ? 0 : fetch_stage_ + 1;
  }
  /// Waits for the oldest K tile in flight; returns its byte offset from the first stage. All other stages but one stay
  /// in flight.
  __device__ __forceinline__ uint32_t Next() {
    const uint32_t at = stage_ * kKTileBytes<kBits>;
    if constexpr (kBulkCopies) {
      WaitAt(barriers_ + stage_ * 8, phase_);
    } else {
      WaitForKTile();
    }
    __syncwarp();
    if (++stage_ == stages_) stage_ = 0, phase_ ^= 1;
    return at;
  }

 private:
  static constexpr int kTileBytes = TileOf<kBits>::kBytes, kTiles = 2 * kKTileChunks;
  static constexpr int kScaleBytes =
      TileOf<kBits>::kHasTileScale ? kTileScaleFloats * static_cast<int>(sizeof(float)) : 0;  // per two tiles
  static constexpr int kLanes = 16, kTilePieces = kTileBytes / 16;  // 16-byte chunks of a tile, one per lane and copy

  static __device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }

  /// Executed by one elected lane. With `elect` the compiler knows that it is alone and does not loop over the lanes'
  /// addresses.
  __device__ __forceinline__ void CopyTiles(const KTileSource& from, bool whole) const {
    if (!ElectOne()) return;
    const uint32_t barrier = barriers_ + fetch_stage_ * 8, to = ring_ + fetch_stage_ * kKTileBytes<kBits>;
    ArriveExpectTx(barrier, kKTileScales<kBits> + 2 * kScaleBytes);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      CopyRun(to + i * kTileBytes, from.tiles[i % 2] + (whole ? i / 2 * kChunkBytes : 0), kTileBytes, barrier,
              kReadOnce);
    }
    if constexpr (kScaleBytes > 0) {
#pragma unroll
      for (int t = 0; t < 2; ++t) {
        CopyRun(to + kKTileScales<kBits> + t * kScaleBytes, from.scales[t], kScaleBytes, barrier, kReadOnce);
      }
    }
  }
  __device__ __forceinline__ void CopyChunks(const KTileSource& from, bool whole) const {
    const int half = Lane() / kLanes;
    const uint32_t stage = ring_ + fetch_stage_ * kKTileBytes<kBits>, to = stage + half * kTileBytes;
#pragma unroll
    for (int chunk = 0; chunk < kKTileChunks; ++chunk) {
      const unsigned char* piece = (half == 0 ? from.tiles[0] : from.tiles[1]) + (whole ? chunk * kChunkBytes : 0);
      for (int i = Lane() % kLanes; i < kTilePieces; i += kLanes) {
        CopyAsync(to + chunk * kTilePairBytes<kBits> + i * 16, piece + i * 16);
      }
    }
    if constexpr (kScaleBytes > 0) {
      if (Lane() % kLanes == 0) {
        CopyAsync(stage + kKTileScales<kBits> + half * kScaleBytes, half == 0 ? from.scales[0] : from.scales[1]);
      }
    }
  }
  __device__ __forceinline__ void WaitForKTile() const {
    static_assert(kMinStages == 2 && kMaxStages == 5);
    switch (stages_) {
      case 2:
        return WaitForCopies<0>();
      case 3:
        return WaitForCopies<1>();
      case 4:
        return WaitForCopies<2>();
      default:
        return WaitForCopies<3>();
    }
  }

  const uint32_t ring_, barriers_;
  const int stages_;
  int fetch_stage_ = 0, stage_ = 0, phase_ = 0;
};

/// The K tiles of a warp's run, streamed through its pipeline stages.
template <int kBits, bool kGateUp>
class KTileStream {
 public:
  /// `barriers`: one per stage.
  __device__ __forceinline__ KTileStream(const GemmParams& a, const KTileRuns& runs, const KTileRun& run, uint32_t ring,
                                         uint32_t barriers, int stages)
      : a_(a), runs_(runs), ring_(ring, barriers, stages), left_(run.left), place_(run.place), k_tile_(run.k_tile) {
    if (left_ > 0) FindTile();
  }
  /// Starts the copies of the next K tile, or does nothing past the last. If the inputs end in the middle of a K tile,
  /// the rest of it is multiplied by zeros.
  __device__ __forceinline__ void Fetch() {
    if (left_ > 0) {
      ring_.Copy(from_, (k_tile_ * kKTileChunks + 1) * kTileInputs < a_.k);
      for (const unsigned char*& from : from_.tiles) from += kKTileChunks * Ring::kChunkBytes;
      for (const float*& from : from_.scales) from += kTileScaleFloats;
      --left_;
      if (++k_tile_ == runs_.k_tiles) {
        k_tile_ = 0, ++place_;
        if (left_ > 0) FindTile();
      }
    }
    ring_.Advance();
  }
  /// As KTilePipeline::Next.
  __device__ __forceinline__ uint32_t Next() { return ring_.Next(); }

 private:
  using W = BlockQuant<kBits>;
  using Ring = KTilePipeline<kBits>;

  __device__ __forceinline__ void FindTile() {
    const int first = runs_.Tile(place_) * kNTileOutputs<kGateUp>;
    int second = first + (kGateUp ? a_.total / 2 : kTileRows);
    if (second >= a_.total) second = first;  // results of missing outputs are discarded
    from_.tiles[0] = WeightTile<W>(a_, first), from_.tiles[1] = WeightTile<W>(a_, second);
    for (const unsigned char*& from : from_.tiles) {
      from += k_tile_ * kKTileChunks * static_cast<int64_t>(Ring::kChunkBytes);
    }
    if constexpr (W::Tile::kHasTileScale) {
      from_.scales[0] = TileScales(a_, first) + k_tile_ * kTileScaleFloats;
      from_.scales[1] = TileScales(a_, second) + k_tile_ * kTileScaleFloats;
    }
  }

  const GemmParams& a_;
  const KTileRuns& runs_;
  Ring ring_;
  int left_, place_, k_tile_;
  KTileSource from_ = {};  // the next K tile
};

}  // namespace ringside::cuda
