// Loads rows of x for the streaming kernel of block-quantized weights (block_quant_gemv.cuh) with 8 bits. Included by
// it only.
#pragma once

#include "kernels/cuda/linear/block_quant_weights.cuh"
#include "kernels/cuda/linear/gemm_inl.cuh"

namespace ringside::cuda {

/// Copies the rows of x to shared memory unconverted, by the whole block.
template <class T>
class KTileInputs {
 public:
  __device__ __forceinline__ KTileInputs(const GemmParams& a, T* shared_x)
      : a_(a), shared_x_(shared_x), padded_((a.k + kKTileInputs - 1) / kKTileInputs * kKTileInputs) {}

  /// Loads x itself.
  __device__ __forceinline__ void Load() const {
    a_.rows == 1 ? LoadRows<true>() : LoadRows<false>();
    __syncthreads();
  }
  /// Loads the norm of x. Block 0 also stores it, as a separate norm kernel would. `shared` holds two floats per warp.
  __device__ __forceinline__ void LoadNormed(const NormVectors<kNormVectors>& vectors, float* shared) const {
    const bool wide = vectors.wide && AllowsVectorAccess(a_.normed_from) && a_.normed_from_stride % 4 == 0;
    if (!wide || a_.k % (32 * 4) != 0) return LoadAnyNormed(vectors, shared);
    if (a_.rows == 1) {
      LoadNormedRows<1>(vectors, 0, shared);
    } else {
      for (int r = 0; r < a_.rows; r += 2) LoadNormedRows<2>(vectors, r, shared);
    }
    for (int r = 0; r < a_.rows; ++r) {
      for (int c = a_.k + static_cast<int>(threadIdx.x) * 4; c < padded_; c += kBlockThreads * 4)
        StoreRun(r, c, Run<4>{});
    }
    __syncthreads();
  }

 private:
  template <int kCount>
  struct alignas(kCount * sizeof(T)) Run {
    T x[kCount];
  };
  static constexpr int kLoads = 4;  // loads in flight per thread

  /// Stores kCount inputs of row r from c on.
  template <int kCount>
  __device__ __forceinline__ void StoreRun(int r, int c, Run<kCount> run) const {
    *reinterpret_cast<Run<kCount>*>(shared_x_ + r * a_.x_shared_stride + c) = run;
  }
  /// kOne: there is only one row.
  template <bool kOne>
  __device__ __forceinline__ void LoadRows() const {
    const int pieces = padded_ / 8, all = kOne ? pieces : a_.rows * pieces;  // per row; in total
    for (int first = threadIdx.x; first < all; first += kLoads * kBlockThreads) {
      uint4 bits[kLoads];
      int rows[kLoads], columns[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int piece = first + i * kBlockThreads;
        rows[i] = kOne ? 0 : (piece >= pieces) + (piece >= 2 * pieces) + (piece >= 3 * pieces);
        columns[i] = (piece - rows[i] * pieces) * 8;
        const T* from = static_cast<const T*>(a_.x) + rows[i] * a_.x_stride + columns[i];
        bits[i] = piece < all && columns[i] < a_.k ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        if (first + i * kBlockThreads < all) StoreRun(rows[i], columns[i], *reinterpret_cast<const Run<8>*>(&bits[i]));
      }
    }
  }
  /// Norms up to kRows rows from row `first` on together.
  /// REQUIRES: all lanes of a warp take part.
  template <int kRows>
  __device__ __forceinline__ void LoadNormedRows(const NormVectors<kNormVectors>& vectors, int first,
                                                 float* shared) const {
    float4 v[kRows][kNormVectors];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float* row = first + r < a_.rows ? a_.normed_from + (first + r) * a_.normed_from_stride : nullptr;
#pragma unroll
      for (int j = 0; j < kNormVectors; ++j) v[r][j] = RowFloat4<kBlockThreads>(row, j, a_.k);
    }
    NormFloat4sOfRows<kBlockThreads>(
        v, a_.k, a_.layer_norm, a_.norm_eps, shared, [&](int j) { return vectors.weight[j]; },
        [&](int j) { return vectors.bias[j]; },
        [&](int r, int c, float4 four) {
          if (first + r >= a_.rows) return;
          const Run<4> run = {FromFloat<T>(four.x), FromFloat<T>(four.y), FromFloat<T>(four.z), FromFloat<T>(four.w)};
          StoreRun(first + r, c, run);
          if (blockIdx.x == 0) *reinterpret_cast<Run<4>*>(static_cast<T*>(a_.x) + (first + r) * a_.x_stride + c) = run;
        });
  }
  __device__ __forceinline__ void LoadAnyNormed(const NormVectors<kNormVectors>& vectors, float* shared) const {
    for (int r = 0; r < a_.rows; ++r) {
      for (int c = a_.k + static_cast<int>(threadIdx.x); c < padded_; c += kBlockThreads) {
        shared_x_[r * a_.x_shared_stride + c] = FromFloat<T>(0);
      }
    }
    NormToShared<T>(a_, vectors, shared_x_, shared);
    __syncthreads();
  }

  const GemmParams& a_;
  T* const shared_x_;
  const int padded_;
};

}  // namespace ringside::cuda
