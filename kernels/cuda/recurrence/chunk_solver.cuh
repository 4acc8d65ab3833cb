// From products of a chunk's keys and queries to the weights that chunk_states.cu reads. With A_ti = b_t e^(G_t - G_i)
// (k_i . k_t) for i < t, u solves (I + A) u = b (v - e^G S_0^T k). It is solved in blocks of 16 rows: stored is -A,
// with the blocks of the diagonal replaced by the inverses of I + A there; and the factors of u in o. Included by .cu
// files only.
#pragma once

#include "kernels/cuda/recurrence/chunk_tiles.cuh"

namespace ringside::cuda {

constexpr int kWeightThreads = 256;               // of a block that computes weights
constexpr int kSolverBlock = 16;                  // rows of a block on the diagonal
constexpr int kProductStride = kStateChunk + 4;   // of products, in floats
constexpr int kInverseStride = kSolverBlock + 1;  // of a block on the diagonal

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

/// The factors of u in u and o, from products with keys and with queries: [2][kStateChunk][kProductStride]. `decays`:
/// G, then b. The blocks of A on the diagonal go to `blocks`.
__device__ __forceinline__ void WeighChunk(const RecurrencePlan& a, const float* products, const float* decays,
                                           float* blocks, char* to) {
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
    if (row / kSolverBlock == p / 2) {
      float* block = blocks + row * kInverseStride + p % 2 * 8;
#pragma unroll
      for (int e = 0; e < 8; ++e) block[e] = in_update[e];
    } else {
#pragma unroll
      for (int e = 0; e < 8; ++e) in_update[e] = -in_update[e];
      StoreWeights(to, row, p, in_update);
    }
  }
}

/// The inverse of I + A of a block on the diagonal, one column per thread.
__device__ __forceinline__ void InvertBlocks(const float* blocks, char* to) {
  const int block = static_cast<int>(threadIdx.x) / kSolverBlock, column = static_cast<int>(threadIdx.x) % kSolverBlock;
  if (block >= kStateChunk / kSolverBlock) return;
  const float* rows = blocks + block * kSolverBlock * kInverseStride;
  float x[kSolverBlock];
#pragma unroll
  for (int row = 0; row < kSolverBlock; ++row) {
    float sum = row == column ? 1.0f : 0.0f;
#pragma unroll
    for (int i = 0; i < row; ++i) sum = fmaf(-rows[row * kInverseStride + i], x[i], sum);
    x[row] = sum;
    const SplitPair pair = Split(sum, 0);
    const int r = block * kSolverBlock + row, c = block * kSolverBlock + column;
    char* at = to + TileOffset<kStateChunk>(r, c / 8) + c % 8 * 2;
    *reinterpret_cast<uint16_t*>(at) = static_cast<uint16_t>(pair.high);
    *reinterpret_cast<uint16_t*>(at + kPairTileBytes) = static_cast<uint16_t>(pair.low);
  }
}

}  // namespace ringside::cuda
