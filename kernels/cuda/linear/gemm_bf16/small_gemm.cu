// y (+)= x W^T + bias for up to 32 rows of x (small-M GEMM). Bound by reading W once. A tile of 16 outputs is the left
// operand of the MMAs and up to 32 rows of x are the right one, so one row costs as much as eight. A block has 8 warps.
// Each takes every eighth K tile of 32 inputs of the same 16 (32, 64) outputs from global memory straight to registers
// in 16-byte loads; the order of the inputs within an MMA is arbitrary as long as W and x agree. The eight partial sums
// are added in warp order, so a row's bits do not depend on the number of rows. The grid is persistent: every block is
// resident and loops over its outputs with the next weights in flight. A small matrix has few outputs to distribute, so
// more than 16 rows are split over blocks of 16 rows, which read the weights again (measured on an H200, a step of
// SmolLM2-135M with 32 rows: 0.92 -> 0.83 ms).
//
// Prologue: RMSNorm or LayerNorm of a float32 row, recomputed by every block. Epilogue: bias, GELU, or SiLU(gate) * up.
//
// linear_plan.cpp selects it where gemv.cu and wgmma_gemm.cu do not apply or are slower.
#include <algorithm>

#include "kernels/cuda/linear/gemm_inl.cuh"

namespace ringside::cuda {
namespace {

constexpr int kChunk = 32;  // inputs per K tile of a warp

/// A block has kTiles tiles of 16 outputs and 8 * kColumns rows of x, selected by grid y. kGateUp: the first
/// half of the tiles are gates, the second half their ups.
template <class T, int kTiles, int kColumns, bool kNorm, bool kGateUp>
__global__ void __launch_bounds__(kBlockThreads) SmallGemmKernel(GemmParams a) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ float shared_sums[kWarps];
  constexpr int kUnroll = kTiles * 2 >= 8 ? 1 : 4 / kTiles;
  constexpr int kRow = 16 * kTiles + 1;            // floats between rows of x in the sums; odd, to avoid bank conflicts
  float* sums = reinterpret_cast<float*>(shared);  // [warp][row of x][kRow]
  T* shared_x = reinterpret_cast<T*>(sums + kWarps * 8 * kColumns * kRow);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quad = lane / 4, inputs = lane % 4 * 8;
  const int half = a.total / 2, chunks = (a.k + kChunk - 1) / kChunk;
  const int first_row = static_cast<int>(blockIdx.y) * 8 * kColumns, own_rows = min(a.rows - first_row, 8 * kColumns);
  constexpr int kFamily = kGateUp ? kTiles / 2 : kTiles;  // adjacent tiles
  const int blocks = ((kGateUp ? half : a.total) + 16 * kFamily - 1) / (16 * kFamily);
  int block = static_cast<int>(blockIdx.x);  // output block; advances by the grid size
  const auto first_output = [&](int tile) {
    return (block * kFamily + tile % kFamily) * 16 + (tile >= kFamily ? half : 0);
  };
  const T* rows[kTiles][2];
  const auto find_rows = [&] {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int output = first_output(t) + quad + 8 * h;
        rows[t][h] = kGateUp && t < kFamily && output >= half ? nullptr : WeightRow<T>(a, output);
      }
    }
  };
  find_rows();

  uint4 w[kUnroll][kTiles][2];
  const auto load_weights = [&](int first) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int input = (first + u * kWarps) * kChunk + inputs;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          w[u][t][h] = input < a.k && rows[t][h] != nullptr ? LoadWeightBytes(rows[t][h] + input) : uint4{0, 0, 0, 0};
        }
      }
    }
  };
  NormVectors<kNormVectors> vectors;
  if constexpr (kNorm) vectors.Load(a.norm_weight, a.norm_bias, a.k, a.layer_norm);
  load_weights(warp);  // weights need not wait for the preceding kernel
  GridDependencySync();
  if constexpr (kNorm) NormToShared<T>(a, vectors, shared_x, shared_sums);

  while (true) {
    float c[kTiles][kColumns][4] = {};
    const int this_block = block;
    for (int first = warp; first < chunks; first += kWarps * kUnroll) {
      uint4 x[kUnroll][kColumns];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int input = (first + u * kWarps) * kChunk + inputs;
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          const int row = 8 * n + quad;
          x[u][n] = uint4{0, 0, 0, 0};
          if (input >= a.k || row >= own_rows) continue;
          const T* from =
              kNorm ? shared_x + row * a.x_shared_stride : static_cast<const T*>(a.x) + (first_row + row) * a.x_stride;
          x[u][n] = *reinterpret_cast<const uint4*>(from + input);
        }
      }
      uint4 now[kUnroll][kTiles][2];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) now[u][t][0] = w[u][t][0], now[u][t][1] = w[u][t][1];
      }
      if (first + kWarps * kUnroll < chunks) {
        load_weights(first + kWarps * kUnroll);
      } else if (block + static_cast<int>(gridDim.x) < blocks) {
        // Prefetches the weights of the next outputs before these sums are reduced.
        block += gridDim.x;
        find_rows();
        load_weights(warp);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          const uint32_t low[4] = {now[u][t][0].x, now[u][t][1].x, now[u][t][0].y, now[u][t][1].y};
          const uint32_t high[4] = {now[u][t][0].z, now[u][t][1].z, now[u][t][0].w, now[u][t][1].w};
#pragma unroll
          for (int n = 0; n < kColumns; ++n) {
            MultiplyAdd(c[t][n], low, x[u][n].x, x[u][n].y, T());
            MultiplyAdd(c[t][n], high, x[u][n].z, x[u][n].w, T());
          }
        }
      }
    }

    const int next_block = this_block + static_cast<int>(gridDim.x);
    // Not earlier: the next kernel's blocks would compete for bandwidth.
    if (next_block >= blocks) TriggerProgrammaticLaunch();
    if (chunks <= warp && next_block < blocks) {  // a warp without a K tile
      block = next_block;
      find_rows();
    }
    const auto finished_output = [&](int tile) { return (this_block * kFamily + tile) * 16; };
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = 8 * n + lane % 4 * 2 + i % 2, output = 16 * t + quad + i / 2 * 8;
          sums[(warp * 8 * kColumns + row) * kRow + output] = c[t][n][i];
        }
      }
    }
    __syncthreads();
    const auto sum_of = [&](int row, int output) {
      float sum = 0;
#pragma unroll
      for (int v = 0; v < kWarps; ++v) sum += sums[(v * 8 * kColumns + row) * kRow + output];
      return sum;
    };
    for (int i = threadIdx.x; i < own_rows * 16 * kFamily; i += kBlockThreads) {
      const int own = i / (16 * kFamily), row = first_row + own;
      const int place = i % (16 * kFamily), output = finished_output(place / 16) + place % 16;
      if (output >= (kGateUp ? half : a.total)) continue;
      float value = AddBias(a, sum_of(own, place), output);
      if constexpr (kGateUp) {
        const float up = RoundTo(a.y_dtype, AddBias(a, sum_of(own, 16 * kFamily + place), half + output));
        value = RoundTo(a.y_dtype, value);
        StoreOutput(a, row, output, value);
        StoreOutput(a, row, half + output, up);
        static_cast<T*>(a.product)[row * a.product_stride + output] = FromFloat<T>(SiluOf(value) * up);
      } else {
        if (a.epilogue == LinearEpilogue::kGeluTanh || a.epilogue == LinearEpilogue::kGeluErf) {
          value = GeluOf(RoundTo(a.y_dtype, value), a.epilogue == LinearEpilogue::kGeluTanh);
        }
        StoreOutput(a, row, output, value);
      }
    }
    if (next_block >= blocks) return;
    __syncthreads();  // all threads have read the sums
  }
}

template <class T, int kTiles, int kColumns, bool kNorm, bool kGateUp>
void LaunchKernel(const Launcher& on, const GemmParams& a) {
  const int outputs = 16 * (kGateUp ? kTiles / 2 : kTiles), all = kGateUp ? a.total / 2 : a.total;
  size_t shared = sizeof(float) * kWarps * 8 * kColumns * (16 * kTiles + 1);
  if (kNorm) shared += sizeof(T) * static_cast<size_t>(a.rows * a.x_shared_stride);
  // A persistent grid: no more blocks than are resident.
  static const int resident = [shared] {
    int blocks = 0;
    CHECK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks,
                                                             SmallGemmKernel<T, kTiles, kColumns, kNorm, kGateUp>,
                                                             kBlockThreads, std::min<size_t>(shared, 48 << 10)));
    return std::max(1, blocks);
  }();
  const int blocks = (all + outputs - 1) / outputs;
  const int rounds = (blocks + resident * on.multiprocessors - 1) / (resident * on.multiprocessors);
  Launch(on, SmallGemmKernel<T, kTiles, kColumns, kNorm, kGateUp>,
         Grid((blocks + rounds - 1) / rounds, (a.rows + 8 * kColumns - 1) / (8 * kColumns)), kBlockThreads, shared, a);
}

/// Tiles of 16 outputs per block, and groups of 8 rows of x, as compile-time constants.
template <class T>
void LaunchOfType(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  const GemmParams a = ToGemmParams(args);
  const bool gate_up = args.epilogue == LinearEpilogue::kSiluMultiply;
  if (tile.rows == 8) {
    if (gate_up)
      return args.norm ? LaunchKernel<T, 2, 1, true, true>(on, a) : LaunchKernel<T, 2, 1, false, true>(on, a);
    return args.norm ? LaunchKernel<T, 1, 1, true, false>(on, a) : LaunchKernel<T, 1, 1, false, false>(on, a);
  }
  CHECK(!args.norm);
  if (tile.rows == 16) {
    if (gate_up) return LaunchKernel<T, 2, 2, false, true>(on, a);
    return tile.outputs == 64 ? LaunchKernel<T, 4, 2, false, false>(on, a) : LaunchKernel<T, 1, 2, false, false>(on, a);
  }
  CHECK(!gate_up);
  if (tile.outputs == 64) return LaunchKernel<T, 4, 4, false, false>(on, a);
  return tile.outputs == 32 ? LaunchKernel<T, 2, 4, false, false>(on, a) : LaunchKernel<T, 1, 4, false, false>(on, a);
}

__global__ void ReferenceGemmKernel(const void* weight, DType dtype, Tensor x, Tensor y, bool accumulate) {
  BeginDependentKernel();
  const int64_t output = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (output >= y.cols) return;
  float sum = 0;
  for (int64_t i = threadIdx.x % 32; i < x.cols; i += 32) {
    const float value = RoundTo(dtype, LoadElement(x.data, x.dtype, blockIdx.y * x.stride + i));
    sum = fmaf(value, LoadElement(weight, dtype, output * x.cols + i), sum);
  }
  sum = SumOverWarp(sum);
  const int64_t at = blockIdx.y * y.stride + output;
  if (threadIdx.x % 32 == 0) {
    StoreElement(y.data, y.dtype, at, accumulate ? LoadElement(y.data, y.dtype, at) + sum : sum);
  }
}

}  // namespace

void LaunchSmallGemm(const Launcher& on, const GemmArgs& args, const LinearTile& tile) {
  CheckVectorLoads(args);
  CHECK(args.weight_dtype == args.dtype && args.x.rows <= kMaxSmallGemmRows);
  if (args.dtype == DType::kF16) return LaunchOfType<__half>(on, args, tile);
  LaunchOfType<__nv_bfloat16>(on, args, tile);
}

void LaunchReferenceGemm(const Launcher& on, const void* weight, DType dtype, int64_t outputs, Tensor x, Tensor y,
                         bool accumulate) {
  CHECK_EQ(outputs, y.cols);
  constexpr int kRows = kBlockThreads / 32;
  Launch(on, ReferenceGemmKernel, Grid((outputs + kRows - 1) / kRows, x.rows), kBlockThreads, 0, weight, dtype, x, y,
         accumulate);
}

}  // namespace ringside::cuda
