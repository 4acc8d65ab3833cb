// From products of a chunk's keys and queries to the weights that chunk_states.cu reads. With A_ti = b_t e^(G_t - G_i)
// (k_i . k_t) for i < t, u solves (I + A) u = b (v - e^G S_0^T k): stored are the inverse of I + A, and the factors of
// u in o. Included by .cu files only.
#pragma once

#include "kernels/cuda/recurrence/chunk_tiles.cuh"

namespace ringside::cuda {

constexpr int kWeightThreads = 256;                          // of a block that computes weights
constexpr int kSolverBlock = 16;                             // rows of the products of a warp
constexpr int kProductStride = kStateChunk + 4;              // of products, in floats
constexpr int kSystemBytes = kStateChunk * kStateChunk * 4;  // of A in float32

/// Stores a 16 x 16 result of the tensor cores in products, which begin at its first row and column.
__device__ __forceinline__ void StoreProducts(float* to, const float (&left)[4], const float (&right)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  to += lane / 4 * kProductStride + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[i / 2 * 8 * kProductStride + i % 2] = left[i];
    to[i / 2 * 8 * kProductStride + i % 2 + 8] = right[i];
  }
}

/// G of a head's rows, and b; of rows in the tail, whose u is known, 0 instead of b.
__device__ __forceinline__ void LoadDecays(const RecurrencePlan& a, const ChunkRows& rows, int head, float* decays) {
  const int r = static_cast<int>(threadIdx.x);
  if (r >= kStateChunk) return;
  decays[r] = a.channel_decays != 0 ? 0.0f : *rows.At(min(r, rows.end - 1), a.channels + head, a.decay_in_row + head);
  decays[kStateChunk + r] = r >= rows.begin && r < rows.end ? *rows.At(r, a.channels + a.decays + head, 0) : 0.0f;
}

/// Stores eight values of a row in both parts of a matrix of weights.
__device__ __forceinline__ void StoreWeights(char* to, int row, int p, const float (&x)[8]) {
  uint32_t high[4], low[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const SplitPair pair = Split(x[2 * i], x[2 * i + 1]);
    high[i] = pair.high, low[i] = pair.low;
  }
  const uint32_t at = TileOffset<kStateChunk>(row, p);
  *reinterpret_cast<uint4*>(to + at) = {high[0], high[1], high[2], high[3]};
  *reinterpret_cast<uint4*>(to + kPairTileBytes + at) = {low[0], low[1], low[2], low[3]};
}

/// e^G_t, b and e^(G_C - G_t) of a head's rows. u of rows in the tail is known: it takes the place of v, without S_0^T
/// k.
__device__ __forceinline__ void StoreFactors(const ChunkRows& rows, const float* decays, char* to) {
  const int r = static_cast<int>(threadIdx.x);
  if (r >= kStateChunk) return;
  auto* factors = reinterpret_cast<float*>(to);
  factors[r] = r < rows.begin ? 0.0f : __expf(decays[r]);
  factors[kStateChunk + r] = r < rows.begin ? 1.0f : decays[kStateChunk + r];
  factors[2 * kStateChunk + r] = __expf(decays[kStateChunk - 1] - decays[r]);
}

/// A, and the factors of u in o, from products with keys and with queries: [2][kStateChunk][kProductStride]. `decays`:
/// G, then b.
__device__ __forceinline__ void WeighChunk(const RecurrencePlan& a, const float* products, const float* decays,
                                           float* system, char* to) {
  const float* weights = decays + kStateChunk;
  for (int n = threadIdx.x; n < kStateChunk * kStateChunk / 8; n += kWeightThreads) {
    const int row = n / 8, p = n % 8;
    float in_update[8], in_result[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int i = 8 * p + e;
      const float decay = i <= row ? __expf(decays[row] - decays[i]) : 0.0f;
      in_update[e] = i < row ? weights[row] * decay * products[row * kProductStride + i] : 0.0f;
      in_result[e] = i <= row ? decay * products[(kStateChunk + row) * kProductStride + i] : 0.0f;
    }
    StoreWeights(to + 2 * kPairTileBytes, row, p, in_result);
    if (a.corrects == 0) continue;
    auto* at = reinterpret_cast<float4*>(system + row * kStateChunk + 8 * p);
    at[0] = {in_update[0], in_update[1], in_update[2], in_update[3]};
    at[1] = {in_update[4], in_update[5], in_update[6], in_update[7]};
  }
}

/// A column of the inverse of I + A by forward substitution.
__device__ __forceinline__ void InvertColumn(const float* system, int column, char* to) {
  // Hides that addresses are the same in every iteration of the caller's loop: kept across it, they would be spilled.
  asm volatile("" : "+r"(column));
  float x[kStateChunk];
#pragma unroll
  for (int row = 0; row < kStateChunk; ++row) {
    float sums[4] = {row == column ? 1.0f : 0.0f};
#pragma unroll
    for (int i = 0; i < row; i += 4) {
      const float4 a = *reinterpret_cast<const float4*>(system + row * kStateChunk + i);
      sums[0] = fmaf(-a.x, x[i], sums[0]);
      if (i + 1 < row) sums[1] = fmaf(-a.y, x[i + 1], sums[1]);
      if (i + 2 < row) sums[2] = fmaf(-a.z, x[i + 2], sums[2]);
      if (i + 3 < row) sums[3] = fmaf(-a.w, x[i + 3], sums[3]);
    }
    x[row] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    const SplitPair pair = Split(x[row], 0);
    char* at = to + TileOffset<kStateChunk>(row, column / 8) + column % 8 * 2;
    *reinterpret_cast<uint16_t*>(at) = static_cast<uint16_t>(pair.high);
    *reinterpret_cast<uint16_t*>(at + kPairTileBytes) = static_cast<uint16_t>(pair.low);
  }
}

/// Copies a tile of all rows, in both parts or several, from shared to global memory.
__device__ __forceinline__ void StoreTiles(const char* from, int bytes, char* to) {
  for (int at = static_cast<int>(threadIdx.x) * 16; at < bytes; at += kWeightThreads * 16) {
    *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(from + at);
  }
}

}  // namespace ringside::cuda
