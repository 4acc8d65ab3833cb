// Experts' products of few rows: bound by reading the weights of those that are taken, each once for eight rows. As in
// skinny_linear.cu a tile of 16 outputs is the left operand of the tensor cores and the rows are the right one; a
// block's 8 warps each take every eighth chunk of 32 inputs, straight from global memory to registers, and their sums
// are added in warp order: a row's bits depend on nothing but the row. A block has 16 gates and their 16 ups, or 32
// outputs, of one expert, and four blocks share a multiprocessor, so that one row's experts of usual sizes are read in
// one wave.
#include "kernels/cuda/experts/expert_products_inl.cuh"

namespace ringside::cuda {
namespace {

constexpr int kWarps = kBlockThreads / 32, kChunk = 32, kUnroll = 2, kColumns = 8, kTiles = 2;
constexpr int kSumsRow = 16 * kTiles + 1;  // floats, odd against bank conflicts

template <class T, bool kIn>
__global__ void __launch_bounds__(kBlockThreads, 4) FewExpertsKernel(ExpertsCall a) {
  __shared__ float sums[kWarps * kColumns * kSumsRow];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quad = lane / 4, input_of_lane = lane % 4 * 8;
  // The choice of experts has ended when the second product's blocks come: the first lets them only afterwards.
  if constexpr (kIn) WaitForStep();
  LetNextStart();
  const ExpertProduct<T, kIn> product(a, static_cast<int>(blockIdx.y));
  constexpr int kOutputs = kIn ? 16 : 16 * kTiles;
  const int first_output = static_cast<int>(blockIdx.x) * kOutputs;
  if (product.rows.count == 0 || first_output >= product.outputs) {
    if constexpr (!kIn) WaitForStep();
    return;
  }
  const int chunks = (product.inputs + kChunk - 1) / kChunk;
  const T* weights[kTiles][2];
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      weights[t][h] = product.WeightRow(first_output + (kIn ? 0 : 16 * t) + quad + 8 * h, t == 1);
    }
  }
  uint4 w[kUnroll][kTiles][2];
  const auto load_weights = [&](int first) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int input = (first + u * kWarps) * kChunk + input_of_lane;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const bool real = input < product.inputs && weights[t][h] != nullptr;
          w[u][t][h] = real ? LoadWeightBytes(weights[t][h] + input) : uint4{0, 0, 0, 0};
        }
      }
    }
  };
  load_weights(warp);
  if constexpr (!kIn) WaitForStep();
  for (int first_row = 0; first_row < product.rows.count; first_row += kColumns) {
    if (first_row > 0) load_weights(warp);
    const T* row = product.InputRow(first_row + quad);
    float c[kTiles][4] = {};
    for (int first = warp; first < chunks; first += kWarps * kUnroll) {
      uint4 x[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int input = (first + u * kWarps) * kChunk + input_of_lane;
        const bool real = input < product.inputs && row != nullptr;
        x[u] = real ? *reinterpret_cast<const uint4*>(row + input) : uint4{0, 0, 0, 0};
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          const uint32_t low[4] = {w[u][t][0].x, w[u][t][1].x, w[u][t][0].y, w[u][t][1].y};
          const uint32_t high[4] = {w[u][t][0].z, w[u][t][1].z, w[u][t][0].w, w[u][t][1].w};
          MultiplyAdd(c[t], low, x[u].x, x[u].y, T());
          MultiplyAdd(c[t], high, x[u].z, x[u].w, T());
        }
      }
      if (first + kWarps * kUnroll < chunks) load_weights(first + kWarps * kUnroll);
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[(warp * kColumns + lane % 4 * 2 + i % 2) * kSumsRow + 16 * t + quad + i / 2 * 8] = c[t][i];
      }
    }
    __syncthreads();
    const auto sum_of = [&](int i, int place) {
      float sum = 0;
#pragma unroll
      for (int v = 0; v < kWarps; ++v) sum += sums[(v * kColumns + i) * kSumsRow + place];
      return sum;
    };
    const int own_rows = min(kColumns, product.rows.count - first_row);
    for (int i = threadIdx.x; i < own_rows * kOutputs; i += kBlockThreads) {
      const int own = i / kOutputs, place = i % kOutputs;
      if (first_output + place >= product.outputs) continue;
      product.Store(first_row + own, first_output + place, sum_of(own, place), kIn ? sum_of(own, 16 + place) : 0.0f);
    }
    __syncthreads();  // the sums have been read
  }
}

template <class T>
void LaunchOfType(const Launcher& on, const ExpertsCall& call) {
  const int64_t gates = (call.plan.widest + 15) / 16, outputs = (call.x.cols + 16 * kTiles - 1) / (16 * kTiles);
  Launch(on, FewExpertsKernel<T, true>, Grid(gates, call.group_count), kBlockThreads, 0, call);
  Launch(on, FewExpertsKernel<T, false>, Grid(outputs, call.group_count), kBlockThreads, 0, call);
}

}  // namespace

void LaunchFewExperts(const Launcher& on, const ExpertsCall& call) {
  call.x.dtype == DType::kF16 ? LaunchOfType<__half>(on, call) : LaunchOfType<__nv_bfloat16>(on, call);
}

}  // namespace ringside::cuda
