// The kernel of block_quant_gemm.cu. Included by it only.
#pragma once

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/linear/block_quant_weights.cuh"
#include "kernels/cuda/linear/float4_epilogue.cuh"
#include "kernels/cuda/linear/gemm_inl.cuh"
#include "kernels/cuda/linear/tensor_boxes.cuh"
#include "kernels/cuda/tensor_map.h"

namespace ringside::cuda {

constexpr int kBlockQuantThreads = kBlockQuantWarpGroups * 128;  // consumer threads
constexpr int kBlockQuantSumsStride = kBlockQuantOutputs + 4;    // floats between rows of the sums
constexpr int kMaxBlockQuantStages = 16;
constexpr int kPrefetchedStages = 2;  // stages whose weights are always prefetched before x

/// Tiling arguments of the kernel, in addition to GemmParams.
struct BlockQuantTiling {
  int stages, stage_bytes;  // pipeline stages: two boxes of x (128 inputs) and the tiles of four panels
  int box_rows;             // rows of x, rounded up to a multiple of 8
  int row_tiles;            // M tiles of up to kN rows; blocks with the same outputs are adjacent in the grid
  int barriers;             // byte offset of the barriers from the first stage
};

/// Computes a tile of up to kN rows of x by 256 outputs, in one block or in a cluster whose blocks split K. A dedicated
/// producer warp fills the pipeline. With 128 rows the accumulators leave no registers for one, so the first consumer
/// thread also issues the copies.
template <class T, int kBits, int kN, bool kGateUp>
struct BlockQuantGemm {
  using W = BlockQuant<kBits>;
  static constexpr bool kOwnWarpCopies = kN <= 64;
  static constexpr int kThreads = kBlockQuantThreads + (kOwnWarpCopies ? 32 : 0);
  static constexpr int kPanelChunk = kPanelTiles * W::Tile::kBytes;  // bytes of a panel in one K tile
  static constexpr int kWeightBytes = kBlockQuantWarpGroups * kPanelChunk;

  const GemmParams& a;
  const BlockQuantTiling& tiling;
  const uint32_t full, empty;  // shared-memory addresses of two barriers per stage
  const uint32_t ring;
  const unsigned char* ring_data;
  int first_chunk, end_chunk, tile, first_row, rows;

  __device__ __forceinline__ BlockQuantGemm(const GemmParams& args, const BlockQuantTiling& by, unsigned char* shared,
                                            int block)
      : a(args),
        tiling(by),
        full(SharedAddress(shared) + by.barriers),
        empty(full + kMaxBlockQuantStages * 8),
        ring(SharedAddress(shared)),
        ring_data(shared) {
    const int blocks = ClusterBlocks(), rank = ClusterRank();
    const int chunks = (a.k + kTileInputs - 1) / kTileInputs;
    first_chunk = rank * chunks / blocks, end_chunk = (rank + 1) * chunks / blocks;
    const int place = block / blocks;
    tile = place / tiling.row_tiles, first_row = place % tiling.row_tiles * kN;
    rows = min(kN, a.rows - first_row);
  }

  /// An output, and the end of those that its matrix has.
  struct OutputPlace {
    int output, end;
  };
  /// The place of a position among the outputs if every matrix is padded to whole panels.
  __device__ __forceinline__ OutputPlace PlaceOf(int position) const {
    int first = 0;
#pragma unroll
    for (const int outputs : a.outputs) {
      const int padded = (outputs + kPanelRows - 1) / kPanelRows * kPanelRows;
      if (position < padded) return {first + position, first + outputs};
      position -= padded, first += outputs;
    }
    return {a.total, a.total};
  }
  /// The first output of a warp group's panel, or one past the last output if it has none.
  __device__ __forceinline__ int PanelOutput(int group) const {
    if constexpr (!kGateUp) return PlaceOf(tile * kBlockQuantOutputs + group * kPanelRows).output;
    constexpr int kHalf = kBlockQuantWarpGroups / 2;
    return group / kHalf * (a.total / 2) + (tile * kHalf + group % kHalf) * kPanelRows;
  }
  __device__ __forceinline__ int boxes_bytes() const { return tiling.box_rows * kBoxColumns * 2 * 2; }

  /// Source pointers and byte count of the copies into a stage; used by one thread.
  struct Copies {
    const unsigned char* panels[kBlockQuantWarpGroups];
    int bytes;
  };
  __device__ __forceinline__ Copies FindPanels() const {
    Copies out;
    out.bytes = boxes_bytes();
#pragma unroll
    for (int g = 0; g < kBlockQuantWarpGroups; ++g) {
      out.panels[g] = WeightTile<W>(a, PanelOutput(g));
      if (out.panels[g] != nullptr) out.bytes += kPanelChunk;
    }
    return out;
  }
  __device__ __forceinline__ void CopyWeights(const Copies& copies, int chunk, int stage) const {
    ArriveExpectTx(full + stage * 8, copies.bytes);
#pragma unroll
    for (int g = 0; g < kBlockQuantWarpGroups; ++g) {
      if (copies.panels[g] == nullptr) continue;
      CopyRun(ring + stage * tiling.stage_bytes + boxes_bytes() + g * kPanelChunk,
              copies.panels[g] + static_cast<int64_t>(chunk) * kPanelChunk, kPanelChunk, full + stage * 8, kReadOnce);
    }
  }
  __device__ __forceinline__ void CopyRows(const CUtensorMap& x, int chunk, int stage) const {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      CopyBox(ring + stage * tiling.stage_bytes + b * boxes_bytes() / 2, x, chunk * kTileInputs + b * kBoxColumns,
              first_row, full + stage * 8, kReadAgain);
    }
  }

  /// First fill of all stages; called by the copying thread before anything else.
  __device__ __forceinline__ Copies FillStages(const CUtensorMap& x) const {
    const Copies copies = FindPanels();
    const int ahead = min(tiling.stages, end_chunk - first_chunk);
    // Weights do not depend on the preceding kernel. A layer that accumulates into the residual stream follows a kernel
    // that leaves no room for a second block on its SM. That kernel has then almost ended, and prefetching all weights
    // would only delay x.
    const int early = a.accumulate ? min(kPrefetchedStages, ahead) : ahead;
    for (int i = 0; i < early; ++i) CopyWeights(copies, first_chunk + i, i);
    PrefetchMap(x);
    GridDependencySync();
    for (int i = 0; i < early; ++i) CopyRows(x, first_chunk + i, i);
    for (int i = early; i < ahead; ++i) CopyWeights(copies, first_chunk + i, i), CopyRows(x, first_chunk + i, i);
    return copies;
  }
  /// Refills a stage once its consumers have released it.
  __device__ __forceinline__ void FillAgain(const CUtensorMap& x, const Copies& copies, int chunk, int stage,
                                            int parity) const {
    WaitAt(empty + stage * 8, parity);
    CopyWeights(copies, chunk, stage);
    CopyRows(x, chunk, stage);
  }
  /// Main loop of the producer warp's thread.
  __device__ __forceinline__ void Copy(const CUtensorMap& x) const {
    const Copies copies = FillStages(x);
    int stage = 0, parity = 0;
    for (int chunk = first_chunk + tiling.stages; chunk < end_chunk; ++chunk) {
      FillAgain(x, copies, chunk, stage, parity);
      if (++stage == tiling.stages) stage = 0, parity ^= 1;
    }
  }

  static constexpr int kResults = kBlockQuantOutputs / (kGateUp ? 2 : 1), kFours = kResults / 4,
                       kAtOnce = kGateUp || kOwnWarpCopies ? 2 : 4;  // limited by registers

  /// Position of a thread's four outputs in `sums`, and the rows of the tile that it handles.
  struct Float4Position {
    int place, output, end, first_row, row_step;
    bool there;
  };
  __device__ __forceinline__ Float4Position PositionOfFloat4() const {
    const int thread = ClusterRank() * kBlockQuantThreads + static_cast<int>(threadIdx.x), place = thread % kFours * 4;
    const int position = tile * kResults + place;
    const OutputPlace to = kGateUp ? OutputPlace{position, a.total / 2} : PlaceOf(position);
    return {
        place, to.output, to.end, thread / kFours, ClusterBlocks() * kBlockQuantThreads / kFours, to.output < to.end};
  }
  /// Scales, biases and old outputs, prefetched while sums are stored and the cluster synchronizes.
  struct Ahead {
    Float4Epilogue<T> own, up;
    float4 old[kAtOnce];  // old outputs of the thread's next kAtOnce rows
  };
  __device__ __forceinline__ void FetchAhead(Ahead& ahead) const {
    const Float4Position at = PositionOfFloat4();
    if (!at.there) return;
    ahead.own = Float4Epilogue<T>::template Of<W>(a, at.output, at.end);
    if constexpr (kGateUp) ahead.up = Float4Epilogue<T>::template Of<W>(a, at.end + at.output, a.total);
    if (!kGateUp && a.accumulate) FetchOld(ahead, at, at.first_row);
  }
  __device__ __forceinline__ void FetchOld(Ahead& ahead, const Float4Position& at, int first) const {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int row = first + i * at.row_step;
      if (row < rows) ahead.old[i] = ahead.own.Old(a, first_row + row);
    }
  }

  /// The scales of a warp's two tiles of E4M3, one float4 per K tile pair of chunks; loads of the next chunk's ratios
  /// are in flight while one is multiplied. Empty for other types.
  struct TileRatios {
    const float* of[2] = {};  // scales of the first inputs
    float next[2] = {1, 1};   // ratios of the next chunk

    __device__ __forceinline__ TileRatios(const GemmParams& a, int output, int chunk) {
      if constexpr (W::Tile::kHasTileScale) {
#pragma unroll
        for (int t = 0; t < 2; ++t) {  // tiles without outputs: any scales
          of[t] = TileScales(a, min(output + t * kTileRows, a.total - 1));
          next[t] = Load(t, chunk, kRatio);
        }
      }
    }
    __device__ __forceinline__ float Load(int t, int chunk, int which) const {
      return of[t][chunk / 2 * kTileScaleFloats + chunk % 2 + which];
    }
    /// Converts sums to the units of `chunk`.
    __device__ __forceinline__ void Rescale(float (&c)[kN / 2], int chunk, int last) {
      const float by[2] = {next[0], next[1]};
#pragma unroll
      for (int t = 0; t < 2; ++t) next[t] = Load(t, min(chunk + 1, last), kRatio);
      Multiply(c, by);
    }
    /// Converts sums from the units of `chunk` to values.
    __device__ __forceinline__ void Finish(float (&c)[kN / 2], int chunk) const {
      const float by[2] = {Load(0, chunk, 0), Load(1, chunk, 0)};
      Multiply(c, by);
    }
    static __device__ __forceinline__ void Multiply(float (&c)[kN / 2], const float (&by)[2]) {
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) c[i] *= by[i / 2 % 2];
    }
  };

  /// Main loop of a consumer warp group: accumulates its panel. If the first thread also copies, it refills the stage
  /// of the K tile before the previous one, which the other warp groups have already read or are about to release.
  __device__ __forceinline__ void Multiply(const CUtensorMap& x, float* sums, Ahead& ahead) const {
    const int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const bool copies_too = !kOwnWarpCopies && threadIdx.x == 0;
    const int own_tiles = boxes_bytes() + group * kPanelChunk + warp * 2 * W::Tile::kBytes;
    Copies copies = {};
    if (copies_too) copies = FillStages(x);
    GridDependencySync();
    float c[kN / 2];
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) c[i] = 0;
    uint32_t left[2][8];
    LaneTile<kBits> first, second;
    first.table.Hold(), second.table = first.table;
    TileRatios ratios(a, PanelOutput(group) + warp * 2 * kTileRows, first_chunk);
    int stage = 0, parity = 0, free_stage = 0, free_parity = 0;
    for (int chunk = first_chunk; chunk < end_chunk; ++chunk) {
      if (copies_too && chunk >= first_chunk + 2 && chunk - 2 + tiling.stages < end_chunk) {
        FillAgain(x, copies, chunk - 2 + tiling.stages, free_stage, free_parity);
        if (++free_stage == tiling.stages) free_stage = 0, free_parity ^= 1;
      }
      __syncwarp();
      WaitAt(full + stage * 8, parity);
      const unsigned char* tiles = ring_data + stage * tiling.stage_bytes + own_tiles;
      // The shuffle makes the value provably warp-uniform, so that sums with it stay uniform.
      const uint32_t first_box = __shfl_sync(0xffffffffu, BoxDescriptorLow(ring + stage * tiling.stage_bytes), 0);
      first.Load(tiles, lane);
      second.Load(tiles + W::Tile::kBytes, lane);
      if constexpr (W::Tile::kHasTileScale) ratios.Rescale(c, chunk, end_chunk - 1);
#pragma unroll
      for (int g = 0; g < kTileGroups; ++g) {
        uint32_t(&own)[8] = left[g % 2];
        Hold(own);  // the WGMMAs that read these registers are done
        auto of_first = first.template ScaleInType<T>(g, 0), of_second = second.template ScaleInType<T>(g, 0);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          if (W::Tile::kHalves == 2 && h == 1) {
            of_first = first.template ScaleInType<T>(g, 1), of_second = second.template ScaleInType<T>(g, 1);
          }
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            own[h * 4 + i * 2] = first.template Rounded<T>(g, 2 * h + i, of_first);
            own[h * 4 + i * 2 + 1] = second.template Rounded<T>(g, 2 * h + i, of_second);
          }
        }
        Hold(own);
        WgmmaFence();
        const uint32_t boxes = first_box + static_cast<uint32_t>(g / 2 * (boxes_bytes() / 2) >> 4);
#pragma unroll
        for (int h = 0; h < 2; ++h) Wgmma<kN, T>::Add(c, own + h * 4, boxes + (g % 2) * 4 + h * 2);
        WgmmaCommit();
        WgmmaWait<1>();
      }
      // WGMMAs in flight across the loop's back edge would be serialized by the compiler.
      WgmmaWait<0>(c);
      ArriveAsWarp(empty + stage * 8, lane);
      if (++stage == tiling.stages) stage = 0, parity ^= 1;
    }
    if constexpr (W::Tile::kHasTileScale) ratios.Finish(c, end_chunk - 1);
    FetchAhead(ahead);
    SyncConsumers<kBlockQuantThreads>();  // all threads have read the stages
    StoreSums(c, sums);
  }

  __device__ __forceinline__ void StoreSums(const float (&c)[kN / 2], float* sums) const {
    const int lane = threadIdx.x % 32, output = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < kN / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = j * 8 + lane % 4 * 2 + i % 2;
        if (row < rows) sums[row * kBlockQuantSumsStride + output + i / 2 * 8] = c[j * 4 + i];
      }
    }
  }

  /// Epilogue: reduces the split-K partial sums across the cluster in the order of the inputs. A thread stores four
  /// outputs of several rows, with their loads in flight together.
  __device__ __forceinline__ void Finish(const float* sums, Ahead& ahead) const {
    const Float4Position at = PositionOfFloat4();
    if (!at.there) return;
    const int blocks = ClusterBlocks();
    for (int first = at.first_row; first < rows; first += kAtOnce * at.row_step) {
      float4 sum[kAtOnce], up_sum[kAtOnce];
      if (!kGateUp && a.accumulate && first > at.first_row) FetchOld(ahead, at, first);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int row = first + i * at.row_step;
        if (row >= rows) break;
        const float* of_row = sums + row * kBlockQuantSumsStride + at.place;
        sum[i] = ReduceFloat4OverCluster(of_row, blocks, {});
        if constexpr (kGateUp) up_sum[i] = ReduceFloat4OverCluster(of_row + kResults, blocks, {});
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int row = first + i * at.row_step;
        if (row >= rows) break;
        if constexpr (kGateUp) {
          StoreGateUpFloat4(a, first_row + row, ahead.own, ahead.up, sum[i], up_sum[i]);
        } else {
          ahead.own.Finish(a, first_row + row, sum[i], a.accumulate ? ahead.old[i] : float4{0, 0, 0, 0});
        }
      }
    }
  }
};

/// Computes the tile of block `block` of a layer.
template <class T, int kBits, int kN, bool kGateUp>
__device__ __forceinline__ void RunBlockQuantGemm(const CUtensorMap& x, const GemmParams& a,
                                                  const BlockQuantTiling& tiling, int block) {
  using Kernel = BlockQuantGemm<T, kBits, kN, kGateUp>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const Kernel kernel(a, tiling, shared, block);
  if (threadIdx.x == 0) {
    for (int i = 0; i < tiling.stages; ++i) {
      InitBarrier(kernel.full + i * 8, 1), InitBarrier(kernel.empty + i * 8, kBlockQuantWarpGroups * 4);
    }
    FenceBarriers();
  }
  __syncthreads();
  TriggerProgrammaticLaunch();
  float* sums = reinterpret_cast<float*>(shared);  // overlays the pipeline stages
  const bool multiplies = !Kernel::kOwnWarpCopies || threadIdx.x < kBlockQuantThreads;
  typename Kernel::Ahead ahead;
  if (multiplies) {
    kernel.Multiply(x, sums, ahead);
  } else if (threadIdx.x == kBlockQuantThreads) {
    kernel.Copy(x);
  }
  __syncwarp();
  ClusterSync();
  if (multiplies) kernel.Finish(sums, ahead);
  ClusterSync();  // no block exits while others read its sums
}

template <class T, int kBits, int kN, bool kGateUp>
__global__ void __launch_bounds__(BlockQuantGemm<T, kBits, kN, kGateUp>::kThreads, 1)
    BlockQuantGemmKernel(const __grid_constant__ CUtensorMap x, GemmParams a, BlockQuantTiling tiling) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  RunBlockQuantGemm<T, kBits, kN, kGateUp>(x, a, tiling, static_cast<int>(blockIdx.x));
#endif
}

/// Two layers of the same rows in one launch: the first `blocks` blocks compute the first layer, the others the second.
template <class T, int kBits, int kNextBits, int kN>
__global__ void __launch_bounds__(BlockQuantGemm<T, kBits, kN, false>::kThreads, 1)
    TwoBlockQuantGemmKernel(const __grid_constant__ CUtensorMap x, GemmParams a, BlockQuantTiling tiling,
                            GemmParams next, BlockQuantTiling next_tiling, int blocks) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const int block = static_cast<int>(blockIdx.x);
  if (block < blocks) return RunBlockQuantGemm<T, kBits, kN, false>(x, a, tiling, block);
  RunBlockQuantGemm<T, kNextBits, kN, false>(x, next, next_tiling, block - blocks);
#endif
}

}  // namespace ringside::cuda
