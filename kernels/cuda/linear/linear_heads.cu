// y_h = x_h W_h^T for every head h: the projections into and out of the latent space of multi-head latent attention
// (DeepSeek-AI 2024). A block computes 64 outputs of one head for 16 or 64 rows on the tensor cores; the inputs pass
// through pipeline stages of 64. An output is one chain of MMAs in input order, so a row's bits do not depend on the
// number of rows.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32, kOutputs = 64, kInputs = 64, kStages = 3;
constexpr int kPitch = kInputs + 8;  // elements; eight rows use different banks

struct HeadsParams {
  const void* weight;  // [heads n, k]
  Tensor x, y;
  int n, k, carried;
};

template <int kRows>
constexpr int kStageElements = (kRows + kOutputs) * kPitch;

/// Copies eight elements, of which the first `real` exist; the others become zero. kAligned: real is 0 or 8.
template <class T, bool kAligned>
__device__ __forceinline__ void CopyEight(T* to, const T* from, const T* valid, int real) {
  if constexpr (kAligned) {
    CopyAsyncOrZero(SharedAddress(to), real > 0 ? from : valid, real > 0);
  } else {
    for (int i = 0; i < 8; ++i) to[i] = i < real ? from[i] : FromFloat<T>(0);
  }
}

/// Loads inputs [first, first + kInputs) of the block's rows and outputs into a stage.
template <class T, int kRows, bool kAligned>
__device__ __forceinline__ void FetchStage(const HeadsParams& a, int head, int64_t row, int output, int first,
                                           T* stage) {
  const int x_step = a.k + a.carried;
  const T* x = static_cast<const T*>(a.x.data) + row * a.x.stride + static_cast<int64_t>(head) * x_step;
  const T* w = static_cast<const T*>(a.weight) + (static_cast<int64_t>(head) * a.n + output) * a.k;
  for (int i = threadIdx.x; i < (kRows + kOutputs) * (kInputs / 8); i += kThreads) {
    const int line = i / (kInputs / 8), c = first + i % (kInputs / 8) * 8;
    const bool is_x = line < kRows;
    const int of = is_x ? line : line - kRows;
    const bool exists = is_x ? row + of < a.x.rows : output + of < a.n;
    const T* from = is_x ? x + of * a.x.stride + c : w + static_cast<int64_t>(of) * a.k + c;
    CopyEight<T, kAligned>(stage + line * kPitch + i % (kInputs / 8) * 8, from, x,
                           exists ? max(0, min(8, a.k - c)) : 0);
  }
  CommitCopies();
}

/// Copies the columns after the head's inputs to after its outputs.
template <class T>
__device__ __forceinline__ void CopyCarried(const HeadsParams& a, int head, int64_t row, int rows) {
  const int64_t from = static_cast<int64_t>(head) * (a.k + a.carried) + a.k,
                to = static_cast<int64_t>(head) * (a.n + a.carried) + a.n;
  for (int i = threadIdx.x; i < rows * a.carried; i += kThreads) {
    const int64_t r = row + i / a.carried;
    const int c = i % a.carried;
    StoreElement(a.y.data, a.y.dtype, r * a.y.stride + to + c,
                 ToFloat(static_cast<const T*>(a.x.data)[r * a.x.stride + from + c]));
  }
}

template <class T, int kRows, bool kAligned>
__global__ void __launch_bounds__(kThreads) LinearHeadsKernel(HeadsParams a) {
  // A warp takes 16 rows and kTiles times 8 outputs.
  constexpr int kRowWarps = kRows / 16, kTiles = kOutputs * kRowWarps / kWarps / 8;
  extern __shared__ __align__(16) unsigned char shared[];
  T* stages = reinterpret_cast<T*>(shared);
  BeginDependentKernel();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.y, output = blockIdx.x * kOutputs;
  const int64_t row = static_cast<int64_t>(blockIdx.z) * kRows;
  const int first_row = warp % kRowWarps * 16, first_output = warp / kRowWarps * kTiles * 8;
  const int chunks = (a.k + kInputs - 1) / kInputs;
  const auto fetch = [&](int chunk) {
    if (chunk >= chunks) return CommitCopies();
    FetchStage<T, kRows, kAligned>(a, head, row, output, chunk * kInputs,
                                   stages + chunk % kStages * kStageElements<kRows>);
  };
  for (int chunk = 0; chunk < kStages - 1; ++chunk) fetch(chunk);
  float sums[kTiles][4] = {};
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WaitForCopies<kStages - 2>();
    __syncthreads();  // the stage is complete, and the one before it is free
    fetch(chunk + kStages - 1);
    const T* stage = stages + chunk % kStages * kStageElements<kRows>;
    const uint32_t left = SharedAddress(stage + (first_row + lane % 16) * kPitch + lane / 16 * 8);
    const uint32_t right =
        SharedAddress(stage + (kRows + first_output + lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 8);
#pragma unroll
    for (int k = 0; k < kInputs / 16; ++k) {
      uint32_t x[4];
      LoadMatrices(x, left + k * 32);
#pragma unroll
      for (int t = 0; t < kTiles; t += 2) {
        uint32_t w[4];
        LoadMatrices(w, right + t * 8 * kPitch * 2 + k * 32);
        MultiplyAdd(sums[t], x, w[0], w[1], T());
        MultiplyAdd(sums[t + 1], x, w[2], w[3], T());
      }
    }
  }
  const int64_t columns = static_cast<int64_t>(head) * (a.n + a.carried);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t r = row + first_row + lane / 4 + i / 2 * 8;
      const int of = output + first_output + t * 8 + lane % 4 * 2 + i % 2;
      if (r < a.x.rows && of < a.n) StoreElement(a.y.data, a.y.dtype, r * a.y.stride + columns + of, sums[t][i]);
    }
  }
  if (blockIdx.x == 0 && a.carried > 0) {
    CopyCarried<T>(a, head, row, static_cast<int>(a.x.rows - row < kRows ? a.x.rows - row : kRows));
  }
}

template <class T, int kRows>
void LaunchRows(const Launcher& on, const HeadsParams& a, int64_t heads) {
  const bool aligned =
      a.k % 8 == 0 && (a.k + a.carried) % 8 == 0 && a.x.stride % 8 == 0 && Aligned(a.x.data) && Aligned(a.weight);
  Launch(on, aligned ? LinearHeadsKernel<T, kRows, true> : LinearHeadsKernel<T, kRows, false>,
         Grid((a.n + kOutputs - 1) / kOutputs, heads, (a.x.rows + kRows - 1) / kRows), kThreads,
         kStages * kStageElements<kRows> * sizeof(T), a);
}

template <class T>
void LaunchOfType(const Launcher& on, const HeadsParams& a, int64_t heads) {
  a.x.rows <= 16 ? LaunchRows<T, 16>(on, a, heads) : LaunchRows<T, 64>(on, a, heads);
}

}  // namespace

void LaunchLinearHeads(const Launcher& on, const void* weight, int64_t heads, int64_t outputs, Tensor x, Tensor y) {
  const int64_t carried = y.cols / heads - outputs;
  const HeadsParams a{
      weight, x, y, static_cast<int>(outputs), static_cast<int>(x.cols / heads - carried), static_cast<int>(carried)};
  x.dtype == DType::kF16 ? LaunchOfType<__half>(on, a, heads) : LaunchOfType<__nv_bfloat16>(on, a, heads);
}

}  // namespace ringside::cuda
