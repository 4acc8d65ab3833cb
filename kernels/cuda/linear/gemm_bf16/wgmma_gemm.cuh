// The kernel of wgmma_gemm.cu. Included by it only.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/tensor_boxes.cuh"
#include "kernels/cuda/tensor_map.h"

namespace ringside::cuda {

/// Arguments of the kernel: fields of GemmArgs and the tiling.
struct WgmmaGemmParams {
  int chunks, tiles, stages;  // K tiles of 64 inputs; output tiles (N); pipeline stages
  int stage_bytes;            // a box of weights and a box of rows of x, padded to a multiple of eight rows with zeros
  int total, rows;
  const float* bias;
  void* y;
  DType y_dtype;
  int64_t y_stride;
  bool fours;  // y and the number of outputs allow float4 accesses
  bool accumulate;
  LinearEpilogue epilogue;
  void* product;
  int64_t product_stride;
};

constexpr int kWgmmaGemmStages = 32;
constexpr int kWgmmaGemmThreads = 128 + 32;  // a consumer warp group and a producer warp

/// kN outputs per tile. With kGateUp a tile holds kN / 2 gates and their ups. A cluster computes one tile
/// only.
template <class T, int kN, bool kGateUp>
struct WgmmaGemm {
  static constexpr int kWeightBytes = kN * kBoxColumns * 2;
  static constexpr int kSumsStride = kN + (8 - kN % 32 + 32) % 32;  // in floats: consecutive rows are eight banks apart
  static constexpr int kStep = kN % 64 == 0 ? 64 : kN % 32 == 0 ? 32 : kN % 16 == 0 ? 16 : 8;  // outputs per WGMMA

  /// Shared memory other than the pipeline stages: barriers and sums. WGMMA always reads 64 rows of x, so the memory
  /// after the last stage may be read as padding rows, whose results are discarded.
  static size_t OtherBytes(int rows) {
    return 2 * kWgmmaGemmStages * 8 + std::max(sizeof(float) * rows * kSumsStride, size_t{64} * kBoxColumns * 2);
  }

  const WgmmaGemmParams& a;
  uint32_t ring, full, empty;  // shared-memory addresses: the stages, and two barriers per stage
  int first_chunk, end_chunk, first_tile, tile_step;
  int stage = 0, parity = 0;  // where Multiply resumes

  __device__ __forceinline__ WgmmaGemm(const WgmmaGemmParams& args, uint32_t ring_at, uint32_t barriers)
      : a(args), ring(ring_at), full(barriers), empty(barriers + kWgmmaGemmStages * 8) {
    const int blocks = ClusterBlocks(), rank = ClusterRank();
    first_chunk = rank * a.chunks / blocks, end_chunk = (rank + 1) * a.chunks / blocks;
    first_tile = static_cast<int>(blockIdx.x) / blocks, tile_step = static_cast<int>(gridDim.x) / blocks;
  }

  /// Producer, one thread: fills the pipeline stages, tile by tile. Its time per stage is short: the weights of a stage
  /// arrive within 200 ns.
  __device__ __forceinline__ void Copy(const CUtensorMap& w, const CUtensorMap& x) const {
    const auto copy_weights = [&](int tile, int chunk, int stage) {
      ArriveExpectTx(full + stage * 8, a.stage_bytes);
      if constexpr (kGateUp) {
        CopyGateUpBox(ring + stage * a.stage_bytes, w, chunk * kBoxColumns, tile * (kN / 16), full + stage * 8,
                      kReadOnce);
      } else {
        CopyBox(ring + stage * a.stage_bytes, w, chunk * kBoxColumns, tile * kN, full + stage * 8, kReadOnce);
      }
    };
    const auto copy_rows = [&](int chunk, int stage) {
      CopyBox(ring + stage * a.stage_bytes + kWeightBytes, x, chunk * kBoxColumns, 0, full + stage * 8, kReadAgain);
    };
    const int ahead = min(a.stages, end_chunk - first_chunk);
    TriggerProgrammaticLaunch();
    for (int i = 0; i < ahead; ++i) copy_weights(first_tile, first_chunk + i, i);
    PrefetchMap(x);
    GridDependencySync();  // weights need not wait for the preceding kernel
    for (int i = 0; i < ahead; ++i) copy_rows(first_chunk + i, i);
    int stage = ahead == a.stages ? 0 : ahead, parity = ahead == a.stages ? 0 : 1, chunk = first_chunk + ahead;
    for (int tile = first_tile; tile < a.tiles; tile += tile_step, chunk = first_chunk) {
      for (; chunk < end_chunk; ++chunk) {
        WaitAt(empty + stage * 8, parity);
        copy_weights(tile, chunk, stage);
        copy_rows(chunk, stage);
        if (++stage == a.stages) stage = 0, parity ^= 1;
      }
    }
  }

  /// Consumer warp group: stores the sums of its next tile to `sums` [rows][kSumsStride].
  __device__ __forceinline__ void Multiply(float* sums) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float c[kN / 2];
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) c[i] = 0;
    int before = -1;
    for (int chunk = first_chunk; chunk < end_chunk; ++chunk) {
      WaitAt(full + stage * 8, parity);
      const uint64_t weights = BoxDescriptor(ring + stage * a.stage_bytes),
                     rows = BoxDescriptor(ring + stage * a.stage_bytes + kWeightBytes);
      WgmmaFence();
#pragma unroll
      for (int k = 0; k < 4; ++k) {  // 16 inputs, 32 bytes of a row
#pragma unroll
        for (int n = 0; n < kN / kStep; ++n) {
          Wgmma<kStep, T>::Add(c + n * kStep / 2, rows + k * 2, weights + n * (kStep * 128 / 16) + k * 2);
        }
      }
      WgmmaCommit();
      if (before >= 0) {
        WgmmaWait<1>();
        if (lane == 0) ArriveAt(empty + before * 8);
      }
      before = stage;
      if (++stage == a.stages) stage = 0, parity ^= 1;
    }
    WgmmaWait<0>(c);
    if (lane == 0) ArriveAt(empty + before * 8);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = warp * 16 + h * 8 + lane / 4;
      if (row >= a.rows) continue;
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
        *reinterpret_cast<float2*>(sums + row * kSumsStride + j * 8 + lane % 4 * 2) =
            float2{c[j * 4 + h * 2], c[j * 4 + h * 2 + 1]};
      }
    }
  }

  /// The i-th group of four outputs of a tile, and whether it exists.
  struct Four {
    int row, place, output;
    bool there;
  };
  __device__ __forceinline__ Four OutputQuadAt(int i, int tile) const {
    constexpr int kOutputs = kGateUp ? kN / 2 : kN, kFours = kOutputs / 4;
    const int place = i % kFours * 4, output = tile * kOutputs + place;
    return {i / kFours, place, output, i < a.rows * kFours && output < (kGateUp ? a.total / 2 : a.total)};
  }
  __device__ __forceinline__ float4 BiasAt(const Four& four) const {
    return a.bias != nullptr ? *reinterpret_cast<const float4*>(a.bias + four.output) : float4{0, 0, 0, 0};
  }
  __device__ __forceinline__ float4 OldAt(const Four& four) const {
    const float* y = static_cast<const float*>(a.y) + four.row * a.y_stride + four.output;
    return a.accumulate ? *reinterpret_cast<const float4*>(y) : float4{0, 0, 0, 0};
  }
  /// Bias and old outputs of a thread's first four outputs, prefetched during the GEMM.
  struct Ahead {
    float4 bias, old;
  };
  __device__ __forceinline__ Ahead FetchAhead(int tile) const {
    const Four four = OutputQuadAt(ClusterRank() * 128 + static_cast<int>(threadIdx.x), tile);
    if (kGateUp || !a.fours || !four.there) return {};
    return {BiasAt(four), OldAt(four)};
  }

  __device__ __forceinline__ static float4 Add(float4 p, float4 q) {
    return {p.x + q.x, p.y + q.y, p.z + q.z, p.w + q.w};
  }

  /// Epilogue, one output at a time, if y does not allow float4 accesses.
  __device__ __forceinline__ void FinishScalar(const float* sums, int tile) const {
    const int blocks = ClusterBlocks();
    for (int i = ClusterRank() * 128 + static_cast<int>(threadIdx.x); i < a.rows * kN; i += blocks * 128) {
      const int row = i / kN, output = tile * kN + i % kN;
      if (output >= a.total) continue;
      const int64_t at = row * a.y_stride + output;
      float value = a.bias != nullptr ? a.bias[output] : 0;
      for (int b = 0; b < blocks; ++b) value += *MapToBlock(sums + row * kSumsStride + i % kN, b);
      if (a.epilogue != LinearEpilogue::kNothing) {
        value = GeluOf(RoundTo(a.y_dtype, value), a.epilogue == LinearEpilogue::kGeluTanh);
      }
      StoreElement(a.y, a.y_dtype, at, a.accumulate ? LoadElement(a.y, a.y_dtype, at) + value : value);
    }
  }

  /// Epilogue, four outputs at a time. The CTAs of a cluster divide the outputs; each reduces the split-K partial sums
  /// in the order of the inputs.
  __device__ __forceinline__ void Finish(const float* sums, int tile, const Ahead& ahead) const {
    if (!kGateUp && !a.fours) return FinishScalar(sums, tile);
    const int blocks = ClusterBlocks(), first = ClusterRank() * 128 + static_cast<int>(threadIdx.x);
    for (int i = first;; i += blocks * 128) {
      const Four four = OutputQuadAt(i, tile);
      if (four.row >= a.rows) return;
      if (!four.there) continue;
      const auto sum_of = [&](int at, float4 sum) {
        return ReduceFloat4OverCluster(sums + four.row * kSumsStride + at, blocks, sum);
      };
      const auto round = [&](float4 v) { return RoundFloat4To(a.y_dtype, v); };
      if constexpr (kGateUp) {
        const int half = a.total / 2, gate_place = four.place / 8 * 16 + four.place % 8;
        Four up_four = four;
        up_four.output += half;
        const float4 gate = round(sum_of(gate_place, BiasAt(four))),
                     up = round(sum_of(gate_place + 8, BiasAt(up_four)));
        StoreFloat4(a.product, std::is_same_v<T, __half> ? DType::kF16 : DType::kBF16,
                    four.row * a.product_stride + four.output,
                    {SiluOf(gate.x) * up.x, SiluOf(gate.y) * up.y, SiluOf(gate.z) * up.z, SiluOf(gate.w) * up.w});
      } else {
        float4 value = sum_of(four.place, i == first ? ahead.bias : BiasAt(four));
        if (a.epilogue != LinearEpilogue::kNothing) {
          const bool tanh_approximation = a.epilogue == LinearEpilogue::kGeluTanh;
          value = round(value);
          value = {GeluOf(value.x, tanh_approximation), GeluOf(value.y, tanh_approximation),
                   GeluOf(value.z, tanh_approximation), GeluOf(value.w, tanh_approximation)};
        }
        StoreFloat4(a.y, a.y_dtype, four.row * a.y_stride + four.output,
                    Add(i == first ? ahead.old : OldAt(four), value));
      }
    }
  }
};

template <class T, int kN, bool kGateUp>
__global__ void __launch_bounds__(kWgmmaGemmThreads)
    WgmmaGemmKernel(const __grid_constant__ CUtensorMap w, const __grid_constant__ CUtensorMap x, WgmmaGemmParams a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Kernel = WgmmaGemm<T, kN, kGateUp>;
  extern __shared__ __align__(1024) unsigned char shared[];
  Kernel kernel(a, SharedAddress(shared), SharedAddress(shared + a.stages * a.stage_bytes));
  float* sums = reinterpret_cast<float*>(shared + a.stages * a.stage_bytes + 2 * kWgmmaGemmStages * 8);
  if (threadIdx.x == 0) {
    for (int i = 0; i < a.stages; ++i) InitBarrier(kernel.full + i * 8, 1), InitBarrier(kernel.empty + i * 8, 4);
    FenceBarriers();
  }
  __syncthreads();
  const bool multiplies = threadIdx.x < 128, alone = ClusterBlocks() == 1;
  typename Kernel::Ahead ahead = {};
  if (threadIdx.x == 128) {
    kernel.Copy(w, x);
  } else if (multiplies) {
    GridDependencySync();
    for (int tile = kernel.first_tile; tile < a.tiles; tile += kernel.tile_step) {
      ahead = kernel.FetchAhead(tile);
      kernel.Multiply(sums);
      if (!alone) break;
      SyncConsumers<128>();
      kernel.Finish(sums, tile, ahead);
      SyncConsumers<128>();  // all threads have read the sums
    }
  }
  if (!alone) {
    __syncwarp();
    ClusterSync();
    if (multiplies) kernel.Finish(sums, kernel.first_tile, ahead);
    ClusterSync();  // all blocks have read the sums
  }
#endif
}

}  // namespace ringside::cuda
