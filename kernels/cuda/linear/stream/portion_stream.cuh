// The way of weights in tiles into shared memory (stream_grouped.cuh, experts). Included by .cu files only.
#pragma once

#include "kernels/cuda/linear/stream/portion_inputs.cuh"
#include "kernels/cuda/linear/tensor_boxes.cuh"

namespace ringside::cuda {

template <int kBits>
constexpr int kPairOfTiles = 2 * TileOf<kBits>::kBytes;  // bytes
template <int kBits>
constexpr int kPortionBytes = kPortionChunks* kPairOfTiles<kBits>;
constexpr int kPortionRows = 16;  // of W
template <bool kPairs>
constexpr int kPortionOutputs = kPortionRows / (kPairs ? 2 : 1);
// Of a warp's ring, a portion each; kSlotsForTwo: with fewer a block has a multiprocessor to itself, and more of them.
constexpr int kFewestSlots = 2, kMostSlots = 5, kSlotsForTwo = 3;

/// A block's place among those of a layer.
struct BlockPlace {
  int block, blocks;
};
/// The tiles of a block, every `blocks`-th, and the runs of their portions, one a warp.
struct PortionRuns {
  BlockPlace at;
  int portions, tiles;  // of a tile; of the block

  __device__ __forceinline__ PortionRuns(const Skinny& a, int all_tiles, BlockPlace place)
      : at(place),
        portions((a.k + kPortionInputs - 1) / kPortionInputs),
        tiles((all_tiles - place.block + place.blocks - 1) / place.blocks) {}
  __device__ __forceinline__ int Begin(int warp) const { return tiles * portions * warp / kWarps; }
  /// The warp of the block's n-th portion.
  __device__ __forceinline__ int WarpOf(int n) const { return (n * kWarps + kWarps - 1) / (tiles * portions); }
  /// The block's i-th tile.
  __device__ __forceinline__ int Tile(int i) const { return at.block + i * at.blocks; }
};

/// A warp's run: how many portions, and where it begins.
struct PortionRun {
  int left, place, portion;  // the tile, of the block's; of it

  __device__ __forceinline__ PortionRun(const PortionRuns& runs, int warp)
      : left(runs.Begin(warp + 1) - runs.Begin(warp)),
        place(runs.Begin(warp) / runs.portions),
        portion(runs.Begin(warp) - place * runs.portions) {}
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr bool kBulkCopies = true;
#else
constexpr bool kBulkCopies = false;
#endif

/// A warp's ring of portions in shared memory, which come as far ahead as it reaches: by the bulk copy engine, where
/// there is one, else by copies of 16 bytes.
template <int kBits>
class PortionRing {
 public:
  static_assert(kPortionBytes<kBits> % 128 == 0, "slots of a ring begin at multiples of 128");
  static constexpr int kChunkBytes = kPanelTiles * TileOf<kBits>::kBytes;  // from a row's tile to its next

  /// `barriers`: of the slots.
  __device__ __forceinline__ PortionRing(uint32_t ring, uint32_t barriers, int slots)
      : ring_(ring), barriers_(barriers), slots_(slots) {
    if (kBulkCopies) {
      if (IsElected()) {
#pragma unroll 1
        for (int i = 0; i < slots; ++i) InitBarrier(barriers + i * 8, 1);
        FenceBarriers();
      }
      __syncwarp();
    }
  }
  /// Starts the copies of a portion into the next slot: its two tiles of the first chunk begin at `from`. If it is not
  /// whole, its second half is the first again.
  __device__ __forceinline__ void Copy(const unsigned char* const (&from)[2], bool whole) const {
    if constexpr (kBulkCopies) {
      CopyTiles(from, whole);
    } else {
      CopyPieces(from, whole);
    }
  }
  /// On to the next slot, whether something was copied or not.
  __device__ __forceinline__ void Advance() {
    if constexpr (!kBulkCopies) CommitCopies();
    fetch_slot_ = fetch_slot_ + 1 == slots_ ? 0 : fetch_slot_ + 1;
  }
  /// Until the portion that was asked for first is there; returns where, from the begin of the ring. All but one slot
  /// are under way.
  __device__ __forceinline__ uint32_t Next() {
    const uint32_t at = slot_ * kPortionBytes<kBits>;
    if constexpr (kBulkCopies) {
      WaitAt(barriers_ + slot_ * 8, phase_);
    } else {
      WaitForPortion();
    }
    __syncwarp();
    if (++slot_ == slots_) slot_ = 0, phase_ ^= 1;
    return at;
  }

 private:
  static constexpr int kTileBytes = TileOf<kBits>::kBytes, kTiles = 2 * kPortionChunks;
  static constexpr int kLanes = 16, kTilePieces = kTileBytes / 16;  // of a tile, where each lane copies 16 bytes

  static __device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }

  /// By one lane, which the compiler knows to be alone: else it takes all lanes' addresses in turn.
  __device__ __forceinline__ void CopyTiles(const unsigned char* const (&from)[2], bool whole) const {
    if (!IsElected()) return;
    const uint32_t barrier = barriers_ + fetch_slot_ * 8, to = ring_ + fetch_slot_ * kPortionBytes<kBits>;
    ArriveAtExpecting(barrier, kPortionBytes<kBits>);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      CopyRun(to + i * kTileBytes, from[i % 2] + (whole ? i / 2 * kChunkBytes : 0), kTileBytes, barrier, kReadOnce);
    }
  }
  __device__ __forceinline__ void CopyPieces(const unsigned char* const (&from)[2], bool whole) const {
    const int half = Lane() / kLanes;
    const uint32_t to = ring_ + fetch_slot_ * kPortionBytes<kBits> + half * kTileBytes;
#pragma unroll
    for (int chunk = 0; chunk < kPortionChunks; ++chunk) {
      const unsigned char* piece = (half == 0 ? from[0] : from[1]) + (whole ? chunk * kChunkBytes : 0);
      for (int i = Lane() % kLanes; i < kTilePieces; i += kLanes) {
        CopyAsync(to + chunk * kPairOfTiles<kBits> + i * 16, piece + i * 16);
      }
    }
  }
  __device__ __forceinline__ void WaitForPortion() const {
    static_assert(kFewestSlots == 2 && kMostSlots == 5);
    switch (slots_) {
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
  const int slots_;
  int fetch_slot_ = 0, slot_ = 0, phase_ = 0;
};

/// A warp's run on its way through its ring.
template <int kBits, bool kPairs>
class PortionStream {
 public:
  /// `barriers`: of the ring's slots.
  __device__ __forceinline__ PortionStream(const Skinny& a, const PortionRuns& runs, const PortionRun& run,
                                           uint32_t ring, uint32_t barriers, int slots)
      : a_(a), runs_(runs), ring_(ring, barriers, slots), left_(run.left), place_(run.place), portion_(run.portion) {
    if (left_ > 0) FindTile();
  }
  /// Starts the copies of the next portion, or of nothing behind the last. What follows the inputs' end in a portion's
  /// middle finds no inputs.
  __device__ __forceinline__ void Fetch() {
    if (left_ > 0) {
      ring_.Copy(from_, (portion_ * kPortionChunks + 1) * kTileInputs < a_.k);
      for (const unsigned char*& from : from_) from += kPortionChunks * Ring::kChunkBytes;
      --left_;
      if (++portion_ == runs_.portions) {
        portion_ = 0, ++place_;
        if (left_ > 0) FindTile();
      }
    }
    ring_.Advance();
  }
  /// As the ring's.
  __device__ __forceinline__ uint32_t Next() { return ring_.Next(); }

 private:
  using W = Grouped<kBits>;
  using Ring = PortionRing<kBits>;

  __device__ __forceinline__ void FindTile() {
    const int first = runs_.Tile(place_) * kPortionOutputs<kPairs>;
    from_[0] = WeightTile<W>(a_, first), from_[1] = WeightTile<W>(a_, first + (kPairs ? a_.total / 2 : kTileRows));
    if (from_[1] == nullptr) from_[1] = from_[0];  // what comes of outputs that are not there is not used
    for (const unsigned char*& from : from_)
      from += portion_ * kPortionChunks * static_cast<int64_t>(Ring::kChunkBytes);
  }

  const Skinny& a_;
  const PortionRuns& runs_;
  Ring ring_;
  int left_, place_, portion_;
  const unsigned char* from_[2] = {};  // the two tiles of the next portion's first chunk
};

}  // namespace ringside::cuda
