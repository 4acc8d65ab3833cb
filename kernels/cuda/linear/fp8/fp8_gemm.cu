// y (+)= x W^T in E4M3 with a scale per row of both (quantize_rows.cu), for up to 128 rows of x on compute capability
// 9.0. Bound by reading W once. A block has 64 to 256 outputs, and one or two warp groups of 64 rows each. The rows are
// the left operand of WGMMAs, the outputs the right one. A producer thread copies boxes of 128 inputs of both into
// pipeline stages by TMA; weights need not wait for the preceding kernel. If there are too few output tiles for the
// device, the CTAs of a cluster split K and reduce their partial sums in a fixed order. With cuBLASLt, which ran these
// layers before, every layer waits for the preceding one.
#include <algorithm>

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/linear_sizes.h"
#include "kernels/cuda/linear/tensor_boxes.cuh"
#include "kernels/cuda/tensor_map.h"

namespace ringside::cuda {
namespace {

constexpr int kBoxBytes = kFp8KTile;  // bytes of a row, which equals its inputs
constexpr int kGroupRows = kFp8GroupRows;
constexpr int kMaxFp8Stages = 8;
constexpr size_t kE4M3StaticBytes = 1024;  // upper bound of a block's static shared memory

struct Fp8GemmParams {
  int chunks, stages, stage_bytes;  // K tiles; pipeline stages
  int total, rows;
  const float *w_scales, *x_scales;
  void* y;
  DType y_dtype;
  int64_t y_stride;
  bool accumulate;
};

/// kN outputs, computed by kGroups consumer warp groups and a producer warp.
template <int kN, int kGroups>
struct Fp8Gemm {
  static constexpr int kThreads = kGroups * 128;  // consumer threads
  static constexpr int kWeightBytes = kN * kBoxBytes;
  static constexpr int kStep = kN % 128 == 0 ? 128 : 64;  // outputs per WGMMA
  static constexpr int kSumsStride = kN + 8;              // in floats: consecutive rows are eight banks apart

  const Fp8GemmParams& a;
  const uint32_t ring, full, empty;  // shared-memory addresses: the stages, and two barriers per stage
  int first_chunk, end_chunk, first_output;

  __device__ __forceinline__ Fp8Gemm(const Fp8GemmParams& layer, uint32_t ring_at, uint32_t barriers)
      : a(layer), ring(ring_at), full(barriers), empty(barriers + kMaxFp8Stages * 8) {
    const int blocks = ClusterBlocks(), rank = ClusterRank();
    first_chunk = rank * a.chunks / blocks, end_chunk = (rank + 1) * a.chunks / blocks;
    first_output = static_cast<int>(blockIdx.x) / blocks * kN;
  }

  /// Producer, one thread: fills the pipeline stages.
  __device__ __forceinline__ void Copy(const CUtensorMap& w, const CUtensorMap& x) const {
    const auto copy_weights = [&](int chunk, int stage) {
      ArriveExpectTx(full + stage * 8, a.stage_bytes);
      CopyBox(ring + stage * a.stage_bytes, w, chunk * kBoxColumns, first_output, full + stage * 8, kReadOnce);
    };
    const auto copy_rows = [&](int chunk, int stage) {
      CopyBox(ring + stage * a.stage_bytes + kWeightBytes, x, chunk * kBoxColumns, 0, full + stage * 8, kReadAgain);
    };
    const int ahead = min(a.stages, end_chunk - first_chunk);
    for (int i = 0; i < ahead; ++i) copy_weights(first_chunk + i, i);
    PrefetchMap(x);
    GridDependencySync();  // weights need not wait for the preceding kernel
    for (int i = 0; i < ahead; ++i) copy_rows(first_chunk + i, i);
    int stage = 0, parity = 0;
    for (int chunk = first_chunk + ahead; chunk < end_chunk; ++chunk) {
      WaitAt(empty + stage * 8, parity);
      copy_weights(chunk, stage);
      copy_rows(chunk, stage);
      if (++stage == a.stages) stage = 0, parity ^= 1;
    }
  }

  /// Consumer warp groups: store the sums to [rows][kSumsStride], over the stages. Memory after the rows of a stage is
  /// read as padding rows, whose results are discarded.
  __device__ __forceinline__ void Multiply(float* sums) const {
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float c[kN / 2];
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) c[i] = 0;
    int stage = 0, parity = 0, before = -1;
    for (int chunk = first_chunk; chunk < end_chunk; ++chunk) {
      WaitAt(full + stage * 8, parity);
      const uint64_t weights = BoxDescriptor(ring + stage * a.stage_bytes),
                     rows = BoxDescriptor(ring + stage * a.stage_bytes + kWeightBytes + group * kGroupRows * kBoxBytes);
      WgmmaFence();
#pragma unroll
      for (int k = 0; k < 4; ++k) {  // 32 inputs
#pragma unroll
        for (int n = 0; n < kN / kStep; ++n) {
          WgmmaE4M3<kStep>::Add(c + n * kStep / 2, rows + k * 2, weights + n * (kStep * kBoxBytes / 16) + k * 2);
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
    SyncConsumers<kThreads>();  // all threads have read the stages
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

  /// Epilogue: a thread stores four outputs of several rows. The CTAs of a cluster divide the rows; each reduces the
  /// split-K partial sums in the order of the inputs. Loads of kAtOnce rows are in flight together; kAtOnce is small,
  /// to leave registers for the next kernel's blocks on the same SM.
  template <int kBlocks>
  __device__ __forceinline__ void FinishOf(const float* sums) const {
    constexpr int kFours = kN / 4, kRowsAtATime = kThreads / kFours,
                  kAtOnce = kBlocks > 2    ? 1
                            : kBlocks == 2 ? 2
                            : kN > 128     ? 8
                                           : 4;
    const int thread = static_cast<int>(threadIdx.x), place = thread % kFours * 4, output = first_output + place;
    if (thread >= kRowsAtATime * kFours || output >= a.total) return;
    const float4 scale = *reinterpret_cast<const float4*>(a.w_scales + output);
    constexpr int kStep = kBlocks * kRowsAtATime;
    for (int first = ClusterRank() * kRowsAtATime + thread / kFours; first < a.rows; first += kAtOnce * kStep) {
      float4 sum[kAtOnce], old[kAtOnce];
      float of_row[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int row = first + j * kStep;
        if (row >= a.rows) break;
        of_row[j] = a.x_scales[row];
        old[j] = a.accumulate ? LoadFloat4(a.y, a.y_dtype, row * a.y_stride + output) : float4{0, 0, 0, 0};
        sum[j] = ReduceFloat4OverCluster(sums + row * kSumsStride + place, kBlocks, {});
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int row = first + j * kStep;
        if (row >= a.rows) break;
        StoreFloat4(a.y, a.y_dtype, row * a.y_stride + output,
                    {old[j].x + sum[j].x * of_row[j] * scale.x, old[j].y + sum[j].y * of_row[j] * scale.y,
                     old[j].z + sum[j].z * of_row[j] * scale.z, old[j].w + sum[j].w * of_row[j] * scale.w});
      }
    }
  }
  /// Clusters have 1, 2, 4 or 8 blocks (Fp8GemmTile).
  __device__ __forceinline__ void Finish(const float* sums) const {
    switch (ClusterBlocks()) {
      case 1:
        return FinishOf<1>(sums);
      case 2:
        return FinishOf<2>(sums);
      case 4:
        return FinishOf<4>(sums);
      default:
        FinishOf<8>(sums);
    }
  }
};

template <int kN, int kGroups>
__global__ void __launch_bounds__(Fp8Gemm<kN, kGroups>::kThreads + 32, 1)
    Fp8GemmKernel(const __grid_constant__ CUtensorMap w, const __grid_constant__ CUtensorMap x, Fp8GemmParams a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Kernel = Fp8Gemm<kN, kGroups>;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ alignas(8) uint64_t barriers[2 * kMaxFp8Stages];
  TriggerProgrammaticLaunch();
  const Kernel kernel(a, SharedAddress(shared), SharedAddress(barriers));
  if (threadIdx.x == 0) {
    for (int i = 0; i < a.stages; ++i) {
      InitBarrier(kernel.full + i * 8, 1), InitBarrier(kernel.empty + i * 8, Kernel::kThreads / 32);
    }
    FenceBarriers();
  }
  __syncthreads();
  const bool multiplies = threadIdx.x < Kernel::kThreads;
  float* sums = reinterpret_cast<float*>(shared);
  if (threadIdx.x == Kernel::kThreads) {
    kernel.Copy(w, x);
  } else if (multiplies) {
    GridDependencySync();
    kernel.Multiply(sums);
  }
  __syncwarp();
  ClusterSync();
  if (multiplies) kernel.Finish(sums);
  ClusterSync();  // no block exits while others read its sums
#endif
}

template <int kN, int kGroups>
void LaunchOf(const Launcher& on, const void* weight, const QuantizedRows& x, int64_t k, Fp8GemmParams a,
              const LinearTile& tile) {
  using Kernel = Fp8Gemm<kN, kGroups>;
  const int box_rows = (a.rows + 7) / 8 * 8;
  a.stage_bytes = Kernel::kWeightBytes + box_rows * kBoxBytes;
  // Memory after the last stage is read as padding rows.
  const int tail_bytes = (kGroups * kGroupRows - box_rows) * kBoxBytes;
  const int room = static_cast<int>(SharedBytes(on.large) - kE4M3StaticBytes) - tail_bytes;
  a.stages = std::min({kMaxFp8Stages, room / a.stage_bytes, (a.chunks + tile.split_k - 1) / tile.split_k});
  const size_t bytes = std::max(static_cast<size_t>(a.stages * a.stage_bytes + tail_bytes),
                                sizeof(float) * static_cast<size_t>(a.rows * Kernel::kSumsStride));
  // The TMA copies two bytes of E4M3 as one 16-bit element.
  const CUtensorMap w = MapRows(DType::kBF16, weight, a.total, k / 2, k / 2, kN),
                    rows = MapRows(DType::kBF16, x.q.data, x.q.rows, k / 2, x.q.stride / 2, box_rows);
  Launcher clustered = on;
  clustered.cluster = tile.split_k;
  Launch(clustered, Fp8GemmKernel<kN, kGroups>, Grid(tile.blocks), Kernel::kThreads + 32, bytes, w, rows, a);
}

template <int kGroups>
void LaunchOfGroups(const Launcher& on, const void* weight, const QuantizedRows& x, int64_t k, const Fp8GemmParams& a,
                    const LinearTile& tile) {
  switch (tile.outputs) {
    case 64:
      return LaunchOf<64, kGroups>(on, weight, x, k, a, tile);
    case 128:
      return LaunchOf<128, kGroups>(on, weight, x, k, a, tile);
    case 192:
      return LaunchOf<192, kGroups>(on, weight, x, k, a, tile);
    default:
      LaunchOf<256, kGroups>(on, weight, x, k, a, tile);
  }
}

}  // namespace

void LaunchFp8Gemm(const Launcher& on, const void* weight, const float* weight_scales, const QuantizedRows& x, Tensor y,
                   bool accumulate, const LinearTile& tile) {
  CHECK(on.wgmma && x.q.rows <= kMaxFp8Rows && Aligned(weight_scales) && AllowsFloat4(y));
  CHECK(CanMap(weight, x.q.stride / 2) && CanMap(x.q.data, x.q.stride / 2));
  CHECK(!accumulate || y.dtype == DType::kF32);
  Fp8GemmParams a = {};
  a.chunks = static_cast<int>((x.q.stride + kBoxBytes - 1) / kBoxBytes);
  a.total = static_cast<int>(y.cols), a.rows = static_cast<int>(x.q.rows);
  a.w_scales = weight_scales, a.x_scales = x.scales;
  a.y = y.data, a.y_dtype = y.dtype, a.y_stride = y.stride, a.accumulate = accumulate;
  tile.rows == kGroupRows ? LaunchOfGroups<1>(on, weight, x, x.q.stride, a, tile)
                          : LaunchOfGroups<2>(on, weight, x, x.q.stride, a, tile);
}

}  // namespace ringside::cuda
