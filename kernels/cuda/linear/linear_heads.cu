// y_h = x_h W_h^T for every head h: the projections into and out of the latent space of multi-head latent attention
// (DeepSeek-AI 2024). A block computes 32 or 64 outputs of one head for 16, 32 or 64 rows on the tensor cores; the
// inputs pass through pipeline stages of 64. Few rows are bound by latency: their blocks are small, and nearly all of
// their weights are in flight before the preceding kernel has ended. An output is one chain of MMAs in input order, so
// a row's bits do not depend on the number of rows.
#include <algorithm>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {
namespace {

constexpr int kInputs = 64;          // of a stage
constexpr int kPitch = kInputs + 8;  // elements; eight rows use different banks

struct HeadsParams {
  const void* weight;  // [heads n, k]
  Tensor x, y;
  int n, k, carried;
  bool weight_is_made;  // by the preceding kernel
};

/// The tile of a block of kRows rows: a warp takes 16 rows and kTiles times 8 outputs.
template <int kRows>
struct HeadsTile {
  static constexpr int kOutputs = kRows == 64 ? 64 : 32, kRowWarps = kRows / 16, kTiles = kRows == 64 ? 4 : 2;
  static constexpr int kThreads = 32 * kRowWarps * kOutputs / (8 * kTiles);
  static constexpr int kStages = kRows == 64 ? 3 : 8;
  static constexpr int kStageElements = (kRows + kOutputs) * kPitch;
};

/// Copies eight elements, of which the first `real` exist; the others become zero. kAligned: real is 0 or 8.
template <class T, bool kAligned>
__device__ __forceinline__ void CopyEight(T* to, const T* from, const T* valid, int real) {
  if constexpr (kAligned) {
    CopyAsyncOrZero(SharedAddress(to), real > 0 ? from : valid, real > 0);
  } else {
    for (int i = 0; i < 8; ++i) to[i] = i < real ? from[i] : FromFloat<T>(0);
  }
}

/// Loads inputs [first, first + kInputs) of `count` lines of k inputs, `stride` apart. Lines from `real` on are zeros.
template <class T, bool kAligned, int kThreads>
__device__ __forceinline__ void FetchLines(const T* from, int64_t stride, int count, int real, int first, int k,
                                           T* to) {
  for (int i = threadIdx.x; i < count * (kInputs / 8); i += kThreads) {
    const int line = i / (kInputs / 8), c = first + i % (kInputs / 8) * 8;
    CopyEight<T, kAligned>(to + line * kPitch + i % (kInputs / 8) * 8, from + line * stride + c, from,
                           line < real ? max(0, min(8, k - c)) : 0);
  }
}

/// Copies the columns after the head's inputs to after its outputs.
template <class T, int kThreads>
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
__global__ void __launch_bounds__(HeadsTile<kRows>::kThreads) LinearHeadsKernel(HeadsParams a) {
  using Tile = HeadsTile<kRows>;
  constexpr int kTiles = Tile::kTiles, kStages = Tile::kStages;
  extern __shared__ __align__(16) unsigned char shared[];
  T* stages = reinterpret_cast<T*>(shared);
  TriggerProgrammaticLaunch();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.y, output = blockIdx.x * Tile::kOutputs;
  const int64_t row = static_cast<int64_t>(blockIdx.z) * kRows;
  const int first_row = warp % Tile::kRowWarps * 16, first_output = warp / Tile::kRowWarps * kTiles * 8;
  const int chunks = (a.k + kInputs - 1) / kInputs;
  const T* x = static_cast<const T*>(a.x.data) + row * a.x.stride + static_cast<int64_t>(head) * (a.k + a.carried);
  const T* weight = static_cast<const T*>(a.weight) + (static_cast<int64_t>(head) * a.n + output) * a.k;
  const auto fetch_weights = [&](int chunk) {
    if (chunk >= chunks) return;
    FetchLines<T, kAligned, Tile::kThreads>(weight, a.k, Tile::kOutputs, a.n - output, chunk * kInputs, a.k,
                                            stages + chunk % kStages * Tile::kStageElements + kRows * kPitch);
  };
  const auto fetch_rows = [&](int chunk) {
    if (chunk >= chunks) return;
    FetchLines<T, kAligned, Tile::kThreads>(x, a.x.stride, kRows, static_cast<int>(min(a.x.rows - row, int64_t{kRows})),
                                            chunk * kInputs, a.k, stages + chunk % kStages * Tile::kStageElements);
  };
  // Loaded weights need not wait for the preceding kernel.
  if (a.weight_is_made) GridDependencySync();
  for (int chunk = 0; chunk < kStages - 1; ++chunk) fetch_weights(chunk);
  if (!a.weight_is_made) GridDependencySync();
  for (int chunk = 0; chunk < kStages - 1; ++chunk) fetch_rows(chunk), CommitCopies();
  float sums[kTiles][4] = {};
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WaitForCopies<kStages - 2>();
    __syncthreads();  // the stage is complete, and the one before it is free
    fetch_weights(chunk + kStages - 1), fetch_rows(chunk + kStages - 1), CommitCopies();
    const T* stage = stages + chunk % kStages * Tile::kStageElements;
    const uint32_t left = SharedAddress(stage + (first_row + lane % 16) * kPitch + lane / 16 * 8);
    const uint32_t right =
        SharedAddress(stage + (kRows + first_output + lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 8);
#pragma unroll
    for (int k = 0; k < kInputs / 16; ++k) {
      uint32_t own[4];
      LoadMatrices(own, left + k * 32);
#pragma unroll
      for (int t = 0; t < kTiles; t += 2) {
        uint32_t w[4];
        LoadMatrices(w, right + t * 8 * kPitch * 2 + k * 32);
        MultiplyAdd(sums[t], own, w[0], w[1], T());
        MultiplyAdd(sums[t + 1], own, w[2], w[3], T());
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
    CopyCarried<T, Tile::kThreads>(a, head, row, static_cast<int>(a.x.rows - row < kRows ? a.x.rows - row : kRows));
  }
}

template <class T, int kRows>
void LaunchRows(const Launcher& on, const HeadsParams& a, int64_t heads) {
  using Tile = HeadsTile<kRows>;
  const bool aligned =
      a.k % 8 == 0 && (a.k + a.carried) % 8 == 0 && a.x.stride % 8 == 0 && Aligned(a.x.data) && Aligned(a.weight);
  const int stages = std::min(Tile::kStages, (a.k + kInputs - 1) / kInputs);
  Launch(on, aligned ? LinearHeadsKernel<T, kRows, true> : LinearHeadsKernel<T, kRows, false>,
         Grid((a.n + Tile::kOutputs - 1) / Tile::kOutputs, heads, (a.x.rows + kRows - 1) / kRows), Tile::kThreads,
         static_cast<size_t>(stages * Tile::kStageElements) * sizeof(T), a);
}

template <class T>
void LaunchOfType(const Launcher& on, const HeadsParams& a, int64_t heads) {
  if (a.x.rows <= 16) return LaunchRows<T, 16>(on, a, heads);
  a.x.rows <= 32 ? LaunchRows<T, 32>(on, a, heads) : LaunchRows<T, 64>(on, a, heads);
}

}  // namespace

void LaunchLinearHeads(const Launcher& on, const void* weight, bool weight_is_made, int64_t heads, int64_t outputs,
                       Tensor x, Tensor y) {
  const int64_t carried = y.cols / heads - outputs;
  const HeadsParams a{weight,
                      x,
                      y,
                      static_cast<int>(outputs),
                      static_cast<int>(x.cols / heads - carried),
                      static_cast<int>(carried),
                      weight_is_made};
  x.dtype == DType::kF16 ? LaunchOfType<__half>(on, a, heads) : LaunchOfType<__nv_bfloat16>(on, a, heads);
}

}  // namespace ringside::cuda
