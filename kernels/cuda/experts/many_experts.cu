// Experts' products of many rows, sorted by expert: a block takes up to 64 rows of one expert and 128 of its outputs
// (64 gates and their ups), 64 inputs at a time through stages of shared memory. How many rows an expert has is known
// on the device only, so the grid has room for any division, and blocks of no rows end at once.
#include "kernels/cuda/experts/expert_products_inl.cuh"

namespace ringside::cuda {
namespace {

constexpr int kRows = kExpertTileRows, kOutputs = 128, kInputs = 64, kStages = 3;
constexpr int kStageRows = kRows + kOutputs, kStageBytes = kStageRows * kInputs * 2, kBytes = kStages * kStageBytes;
constexpr int kRowsAtATime = kBlockThreads / 8;  // that a block copies: a thread takes 16 of a row's 128 bytes

/// Where 16 bytes of a stage's row lie: eight rows that are read together lie in different banks.
__device__ __forceinline__ uint32_t UnitAt(uint32_t stage, int row, int unit) {
  return stage + row * (kInputs * 2) + (unit ^ (row % 8)) * 16;
}

template <class T, bool kIn>
__global__ void __launch_bounds__(kBlockThreads, 2) ManyExpertsKernel(ExpertsCall a) {
  extern __shared__ __align__(128) unsigned char shared[];
  StartStep();
  const ExpertProduct<T, kIn> product(a, static_cast<int>(blockIdx.y));
  constexpr int kOwn = kIn ? kOutputs / 2 : kOutputs;
  const int first_output = static_cast<int>(blockIdx.x) * kOwn;
  if (product.rows.count == 0 || first_output >= product.outputs) return;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, copied = threadIdx.x / 8, unit = threadIdx.x % 8;
  const uint32_t stages = SharedAddress(shared);
  // A warp's 32 outputs are 16 gates and their 16 ups.
  const T* from[kStageRows / kRowsAtATime];
#pragma unroll
  for (int i = 0; i < kStageRows / kRowsAtATime; ++i) {
    const int row = i * kRowsAtATime + copied, output = row - kRows;
    if (output < 0) {
      from[i] = product.InputRow(row);
    } else if constexpr (kIn) {
      from[i] = product.WeightRow(first_output + output / 32 * 16 + output % 16, output % 32 >= 16);
    } else {
      from[i] = product.WeightRow(first_output + output, false);
    }
  }
  const int chunks = (product.inputs + kInputs - 1) / kInputs;
  const auto fetch = [&](int chunk) {
    const int input = chunk * kInputs + unit * 8;
    if (chunk < chunks) {
#pragma unroll
      for (int i = 0; i < kStageRows / kRowsAtATime; ++i) {
        const bool real = from[i] != nullptr && input < product.inputs;
        const T* source = real ? from[i] + input : static_cast<const T*>(product.expert.out);
        CopyAsyncOrZero(UnitAt(stages + chunk % kStages * kStageBytes, i * kRowsAtATime + copied, unit), source, real);
      }
    }
    CommitCopies();
  };
  const int own_row = warp / 4 * 32, own_output = warp % 4 * 32;  // a warp takes 32 rows and 32 outputs
  const bool works = own_row < product.rows.count;
  float c[2][4][4] = {};
  for (int n = 0; n < kStages - 1; ++n) fetch(n);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WaitForCopies<kStages - 2>();
    __syncthreads();
    fetch(chunk + kStages - 1);
    if (!works) continue;
    const uint32_t stage = stages + chunk % kStages * kStageBytes;
#pragma unroll
    for (int k = 0; k < kInputs / 16; ++k) {
      uint32_t x[2][4], w[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        LoadMatrices(x[i], UnitAt(stage, own_row + 16 * i + lane % 16, 2 * k + lane / 16));
        LoadMatrices(w[i], UnitAt(stage, kRows + own_output + 16 * i + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
      }
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int n = 0; n < 4; ++n) MultiplyAdd(c[m][n], x[m], w[n / 2][n % 2 * 2], w[n / 2][n % 2 * 2 + 1], T());
      }
    }
  }
  WaitForCopies<0>();
  if (!works) return;
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int n = 0; n < (kIn ? 2 : 4); ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = own_row + 16 * m + lane / 4 + i / 2 * 8;
        const int output = first_output + (kIn ? own_output / 2 : own_output) + 8 * n + lane % 4 * 2 + i % 2;
        if (row >= product.rows.count || output >= product.outputs) continue;
        product.Store(row, output, c[m][n][i], kIn ? c[m][n + 2][i] : 0.0f);
      }
    }
  }
}

template <class T>
void LaunchOfType(const Launcher& on, const ExpertsCall& call) {
  const int64_t gates = (call.plan.widest + kOutputs / 2 - 1) / (kOutputs / 2),
                outputs = (call.x.cols + kOutputs - 1) / kOutputs;
  Launch(on, ManyExpertsKernel<T, true>, Grid(gates, call.group_count), kBlockThreads, kBytes, call);
  Launch(on, ManyExpertsKernel<T, false>, Grid(outputs, call.group_count), kBlockThreads, kBytes, call);
}

}  // namespace

void LaunchManyExperts(const Launcher& on, const ExpertsCall& call) {
  call.x.dtype == DType::kF16 ? LaunchOfType<__half>(on, call) : LaunchOfType<__nv_bfloat16>(on, call);
}

}  // namespace ringside::cuda
