// LoRA: y += (x A^T) B^T, each row with its own adapter. Two kernels; a block has a tile of up to 8 rows with one
// adapter. In the first, a block has 4 rows of A and its threads divide the inputs; the second has one thread per
// output. Sums are float32 in a fixed order, so a row's bits depend on nothing but the row.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/low_rank_plan.h"

namespace ringside::cuda {
namespace {

constexpr int kRows = kAdapterTileRows, kRanks = 4, kWarps = kBlockThreads / 32;
static_assert(kRows * kRanks == 32);  // one sum per lane

/// Elements c ... c + 7 of a row of n values, zeros past its end; c is a multiple of 8. `vectors`: n is a multiple of 8
/// and the row is aligned.
template <class T>
__device__ __forceinline__ Vec8 LoadVec8OrZero(const T* row, int64_t c, int64_t n, bool vectors) {
  if (vectors) return LoadVec8(row + c);
  Vec8 out;
#pragma unroll
  for (int i = 0; i < 8; ++i) out.x[i] = c + i < n ? ToFloat(row[c + i]) : 0.0f;
  return out;
}

/// Whether rows `stride` elements apart can be read as vectors of eight.
template <class T>
__device__ __forceinline__ bool AllowsVec8(const T* rows, int64_t stride, int64_t n) {
  return AllowsVectorAccess(rows) && stride * static_cast<int64_t>(sizeof(T)) % 16 == 0 && n % 8 == 0;
}

/// Row `rank` of the concatenated A matrices of an adapter; null past the last.
template <class T>
__device__ __forceinline__ const T* RowOfA(const PackedLowRank& packed, int rank, int64_t k) {
#pragma unroll
  for (int m = 0; m < PackedLowRank::kMaxMatrices; ++m) {
    const PackedLowRank::Matrix& matrix = packed.matrices[m];
    if (rank < matrix.rank) return static_cast<const T*>(matrix.a) + rank * k;
    rank -= matrix.rank;
  }
  return nullptr;
}

/// Transposed warp reduction: lane l gets the sum of v[l] over all lanes; v is clobbered.
template <int kHalf = 16>
__device__ __forceinline__ float TransposedWarpSum(float (&v)[32]) {
  const bool upper = (threadIdx.x & kHalf) != 0;
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const float mine = upper ? v[i + kHalf] : v[i], others = upper ? v[i] : v[i + kHalf];
    v[i] = mine + __shfl_xor_sync(0xffffffffu, others, kHalf);
  }
  if constexpr (kHalf > 1) TransposedWarpSum<kHalf / 2>(v);
  return v[0];
}

/// Computes `low` = x A^T, four ranks per block. X is the type of x.
template <class T, class X>
__global__ void __launch_bounds__(kBlockThreads, 2) LowRankInKernel(LowRankPlan plan, Tensor x) {
  __shared__ float shared[kWarps][32];
  BeginDependentKernel();
  const AdapterTile tile = plan.tiles[blockIdx.x];
  if (tile.rows == 0) return;
  const int64_t k = x.cols;
  const int first = static_cast<int>(blockIdx.y) * kRanks;
  const T* a[kRanks];
#pragma unroll
  for (int j = 0; j < kRanks; ++j) a[j] = RowOfA<T>(plan.packed[tile.adapter], first + j, k);
  if (a[0] == nullptr) return;  // uniform across the block
  const X* rows = static_cast<const X*>(x.data) + tile.row * x.stride;
  const bool x_vectors = AllowsVec8(rows, x.stride, k);
  bool a_vectors = true;
#pragma unroll
  for (int j = 0; j < kRanks; ++j) a_vectors = a_vectors && AllowsVec8(a[j], k, k);
  float sums[kRows * kRanks] = {};
  for (int64_t c = threadIdx.x * 8; c < k; c += kBlockThreads * 8) {
    Vec8 w[kRanks];
#pragma unroll
    for (int j = 0; j < kRanks; ++j) w[j] = a[j] != nullptr ? LoadVec8OrZero(a[j], c, k, a_vectors) : Vec8{};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r < tile.rows) {
        const Vec8 in = LoadVec8OrZero(rows + r * x.stride, c, k, x_vectors);
#pragma unroll
        for (int j = 0; j < kRanks; ++j) {
#pragma unroll
          for (int i = 0; i < 8; ++i) sums[r * kRanks + j] = fmaf(in.x[i], w[j].x[i], sums[r * kRanks + j]);
        }
      }
    }
  }
  shared[threadIdx.x / 32][threadIdx.x % 32] = TransposedWarpSum(sums);
  __syncthreads();
  if (threadIdx.x >= 32) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += shared[w][threadIdx.x];
  const int r = static_cast<int>(threadIdx.x) / kRanks, rank = first + static_cast<int>(threadIdx.x) % kRanks;
  if (r < tile.rows && rank < plan.low.cols)
    static_cast<float*>(plan.low.data)[(tile.row + r) * plan.low.stride + rank] = sum;
}

/// y += low B^T, one output per thread. Y is the type of y.
template <class T, class Y>
__global__ void __launch_bounds__(kBlockThreads) LowRankOutKernel(LowRankPlan plan, Tensor y) {
  BeginDependentKernel();
  const AdapterTile tile = plan.tiles[blockIdx.x];
  if (tile.rows == 0) return;
  const int column = static_cast<int>(blockIdx.y * kBlockThreads + threadIdx.x);
  const PackedLowRank& packed = plan.packed[tile.adapter];
  const float* low = static_cast<const float*>(plan.low.data) + tile.row * plan.low.stride;
  Y* to = static_cast<Y*>(y.data) + tile.row * y.stride + column;
#pragma unroll
  for (int m = 0; m < PackedLowRank::kMaxMatrices; ++m) {
    const PackedLowRank::Matrix& matrix = packed.matrices[m];
    const int output = column - matrix.first_output;
    if (output >= 0 && output < matrix.outputs) {
      const T* b = static_cast<const T*>(matrix.b) + static_cast<int64_t>(output) * matrix.rank;
      const bool b_vectors = AllowsVec8(b, matrix.rank, matrix.rank),
                 low_vectors = AllowsVec8(low, plan.low.stride, matrix.rank);
      float sums[kRows] = {};
      for (int j = 0; j < matrix.rank; j += 8) {
        const Vec8 w = LoadVec8OrZero(b, j, matrix.rank, b_vectors);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          if (r < tile.rows) {
            const Vec8 in = LoadVec8OrZero(low + r * plan.low.stride, j, matrix.rank, low_vectors);
#pragma unroll
            for (int i = 0; i < 8; ++i) sums[r] = fmaf(in.x[i], w.x[i], sums[r]);
          }
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r < tile.rows) to[r * y.stride] = FromFloat<Y>(ToFloat(to[r * y.stride]) + sums[r]);
      }
    }
    low += matrix.rank;
  }
}

template <class T>
void LaunchAs(const Launcher& on, const LowRankPlan& plan, const Tensor& x, const Tensor& y) {
  const auto in = x.dtype == DType::kF32 ? LowRankInKernel<T, float> : LowRankInKernel<T, T>;
  const auto out = y.dtype == DType::kF32 ? LowRankOutKernel<T, float> : LowRankOutKernel<T, T>;
  Launch(on, in, Grid(plan.tile_count, (plan.low.cols + kRanks - 1) / kRanks), kBlockThreads, 0, plan, x);
  Launch(on, out, Grid(plan.tile_count, (y.cols + kBlockThreads - 1) / kBlockThreads), kBlockThreads, 0, plan, y);
}

}  // namespace

void LaunchLowRank(const Launcher& on, const LowRankPlan& plan, DType dtype, Tensor x, Tensor y) {
  dtype == DType::kF16 ? LaunchAs<__half>(on, plan, x, y) : LaunchAs<__nv_bfloat16>(on, plan, x, y);
}

}  // namespace ringside::cuda
