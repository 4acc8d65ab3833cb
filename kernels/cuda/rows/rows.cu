// Row-wise operations: embedding lookups, norms, activations. All are launch- and memory-bound, so each is the simplest
// kernel with coalesced accesses.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/block_quant_weights.cuh"
#include "kernels/deferred_token.h"

namespace ringside::cuda {
namespace {

__global__ void EmbedKernel(const void* table, DType dtype, const float* scales, const int32_t* ids,
                            const int32_t* sampled, float scale, Tensor y, bool accumulate) {
  BeginDependentKernel();
  const int32_t id = ids[blockIdx.x];
  const int64_t row = IsDeferredToken(id) ? sampled[DeferredTokenIndex(id)] : id, to = blockIdx.x * y.stride;
  for (int64_t c = blockIdx.y * blockDim.x + threadIdx.x; c < y.cols; c += gridDim.y * blockDim.x) {
    const float element = HasGroupScales(dtype) ? LoadBlockQuant(table, dtype, scales, row, c, y.cols)
                          : scales != nullptr   ? LoadW8(table, dtype, row, c, y.cols) * scales[row]
                                                : LoadElement(table, dtype, row * y.cols + c);
    const float value = scale * element;
    StoreElement(y.data, y.dtype, to + c, accumulate ? LoadElement(y.data, y.dtype, to + c) + value : value);
  }
}

/// Arguments of the norm kernels; y may alias x.
struct NormArgs {
  Tensor x;
  const float* added;  // bias added in place to every row of x before the norm; or null
  const float* weight;
  const float* bias;
  bool layer;
  float eps;
  Tensor y;
};

__global__ void __launch_bounds__(kBlockThreads) NormKernel(NormArgs a) {
  __shared__ float shared[kBlockThreads / 32];
  BeginDependentKernel();
  const int n = static_cast<int>(a.x.cols);
  const int64_t to = blockIdx.x * a.y.stride;
  NormVectors<8> vectors;
  vectors.Load(a.weight, a.bias, n, a.layer);
  NormRow(static_cast<const float*>(a.x.data) + blockIdx.x * a.x.stride, vectors, a.weight, a.bias, n, a.layer, a.eps,
          shared, [&](int c, float value) { StoreElement(a.y.data, a.y.dtype, to + c, value); });
}

/// Rows of whole float4s, each held in the registers of kThreads threads (a warp or the block of kBlockThreads). The
/// weights are loaded before the grid dependency sync, so they overlap the preceding kernel.
template <int kThreads, int kVectors>
__global__ void __launch_bounds__(kBlockThreads) NormWideKernel(NormArgs a) {
  __shared__ float shared[kBlockThreads / 32];
  const int n = static_cast<int>(a.x.cols);
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / kThreads) + threadIdx.x / kThreads;
  TriggerProgrammaticLaunch();
  float4 weight[kVectors], bias[kVectors], v[kVectors];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    weight[j] = RowFloat4<kThreads>(a.weight, j, n), bias[j] = RowFloat4<kThreads>(a.layer ? a.bias : nullptr, j, n);
  }
  GridDependencySync();
  if (row >= a.x.rows) return;  // uniform across the warp
  float* x = static_cast<float*>(a.x.data) + row * a.x.stride;
#pragma unroll
  for (int j = 0; j < kVectors; ++j) v[j] = RowFloat4<kThreads>(x, j, n);
  if (a.added != nullptr) {
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const int c = Float4Index<kThreads>(j);
      if (c >= n) continue;
      const float4 added = *reinterpret_cast<const float4*>(a.added + c);
      v[j].x += added.x, v[j].y += added.y, v[j].z += added.z, v[j].w += added.w;
      *reinterpret_cast<float4*>(x + c) = v[j];
    }
  }
  NormFloat4s<kThreads>(
      v, n, a.layer, a.eps, shared, [&](int j) { return weight[j]; }, [&](int j) { return bias[j]; },
      [&](int c, float4 four) { StoreFloat4(a.y.data, a.y.dtype, row * a.y.stride + c, four); });
}

/// Arguments of the in-place norms of adjacent heads of d values.
struct NormHeadsArgs {
  Tensor x;
  HeadsNorm first, next;
  HeadsGate gate;
  int heads, d;  // heads: per row, first and next together
  float eps;

  __device__ int count() const { return static_cast<int>(x.rows) * heads; }
  __device__ int64_t PlaceOf(int item) const { return item / heads * x.stride + item % heads * d; }
  __device__ int64_t GateAt(int item) const { return item / heads * gate.values.stride + item % heads * d; }
  __device__ const float* WeightOf(int item) const {
    return item % heads < static_cast<int>(first.heads) ? first.weight : next.weight;
  }
};

/// One warp per head.
__global__ void NormHeadsKernel(NormHeadsArgs a) {
  BeginDependentKernel();
  const int item = static_cast<int>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  if (item >= a.count()) return;
  const int64_t at = a.PlaceOf(item), gate = a.GateAt(item);
  const float* weight = a.WeightOf(item);
  float sum = 0;
  for (int i = threadIdx.x % 32; i < a.d; i += 32) {
    const float value = LoadElement(a.x.data, a.x.dtype, at + i);
    sum += value * value;
  }
  const float factor = rsqrtf(SumOverWarp(sum) / a.d + a.eps);
  for (int i = threadIdx.x % 32; i < a.d; i += 32) {
    float value = LoadElement(a.x.data, a.x.dtype, at + i) * factor * weight[i];
    if (a.gate.values.data != nullptr) {
      value *= GateFactor(LoadElement(a.gate.values.data, a.gate.values.dtype, gate + i), a.gate.kind);
    }
    StoreElement(a.x.data, a.x.dtype, at + i, value);
  }
}

/// One warp or block per head; the head is held in registers and all its loads are in flight together.
template <int kThreads, int kVectors>
__global__ void __launch_bounds__(kBlockThreads) NormHeadsWideKernel(NormHeadsArgs a) {
  __shared__ float shared[kBlockThreads / 32];
  const int item = static_cast<int>(blockIdx.x * (kBlockThreads / kThreads) + threadIdx.x / kThreads);
  TriggerProgrammaticLaunch();
  if (item >= a.count()) return;  // uniform across the warp
  const int64_t at = a.PlaceOf(item), gate_at = a.GateAt(item);
  const bool gated = a.gate.values.data != nullptr;
  float4 weight[kVectors], v[kVectors], gate[kVectors];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) weight[j] = RowFloat4<kThreads>(a.WeightOf(item), j, a.d);
  GridDependencySync();
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const int c = Float4Index<kThreads>(j);
    v[j] = c < a.d ? LoadFloat4(a.x.data, a.x.dtype, at + c) : float4{0, 0, 0, 0};
    if (gated && c < a.d) gate[j] = LoadFloat4(a.gate.values.data, a.gate.values.dtype, gate_at + c);
  }
  int n = 0;  // index of the next float4 of the thread
  NormFloat4s<kThreads>(
      v, a.d, false, a.eps, shared, [&](int j) { return weight[j]; },
      [](int) {
        return float4{0, 0, 0, 0};
      },
      [&](int c, float4 four) {
        if (gated) {
          const float4& g = gate[n++];
          four.x *= GateFactor(g.x, a.gate.kind), four.y *= GateFactor(g.y, a.gate.kind);
          four.z *= GateFactor(g.z, a.gate.kind), four.w *= GateFactor(g.w, a.gate.kind);
        }
        StoreFloat4(a.x.data, a.x.dtype, at + c, four);
      });
}

__global__ void MultiplyActivatedKernel(Tensor x, Activation activation, Tensor y) {
  BeginDependentKernel();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, from = blockIdx.y * x.stride;
  if (c >= y.cols) return;
  const float gate = LoadElement(x.data, x.dtype, from + c), up = LoadElement(x.data, x.dtype, from + y.cols + c);
  StoreElement(y.data, y.dtype, blockIdx.y * y.stride + c, MultipliedOf(gate, up, activation));
}

/// Eight 16-bit elements, converted to floats on load and back on store.
template <class T>
struct Vec8 {
  float x[8];
  __device__ static Vec8 Load(const T* p) {
    const uint4 bits = *reinterpret_cast<const uint4*>(p);
    Vec8 out;
#pragma unroll
    for (int i = 0; i < 8; ++i) out.x[i] = ToFloat(reinterpret_cast<const T*>(&bits)[i]);
    return out;
  }
  __device__ void Store(T* p) const {
    uint4 bits;
#pragma unroll
    for (int i = 0; i < 8; ++i) reinterpret_cast<T*>(&bits)[i] = FromFloat<T>(x[i]);
    *reinterpret_cast<uint4*>(p) = bits;
  }
};

template <class T>
__global__ void SiluMultiplyWideKernel(Tensor x, Tensor y) {
  BeginDependentKernel();
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 8;
  if (c >= y.cols) return;
  const T* from = static_cast<const T*>(x.data) + blockIdx.y * x.stride + c;
  Vec8<T> gate = Vec8<T>::Load(from);
  const Vec8<T> up = Vec8<T>::Load(from + y.cols);
#pragma unroll
  for (int i = 0; i < 8; ++i) gate.x[i] = SiluOf(gate.x[i]) * up.x[i];
  gate.Store(static_cast<T*>(y.data) + blockIdx.y * y.stride + c);
}

/// Four values of a vector from c on, or zeros if it is null.
__device__ __forceinline__ float4 Float4At(const float* vector, int64_t c) {
  return vector != nullptr ? *reinterpret_cast<const float4*>(vector + c) : float4{0, 0, 0, 0};
}

/// x = x + bias, optionally followed by GELU, eight elements per thread. The sum is rounded to T before GELU, as if it
/// had been stored in between.
enum class BiasEpilogue { kNothing, kGeluTanh, kGeluErf };
template <class T>
__global__ void BiasWideKernel(Tensor x, const float* bias, BiasEpilogue epilogue) {
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 8;
  TriggerProgrammaticLaunch();
  if (c >= x.cols) return;
  const float4 low = Float4At(bias, c), high = Float4At(bias, c + 4);
  GridDependencySync();
  T* at = static_cast<T*>(x.data) + blockIdx.y * x.stride + c;
  Vec8<T> values = Vec8<T>::Load(at);
  const float added[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    values.x[i] += added[i];
    if (epilogue != BiasEpilogue::kNothing) {
      values.x[i] = GeluOf(ToFloat(FromFloat<T>(values.x[i])), epilogue == BiasEpilogue::kGeluTanh);
    }
  }
  values.Store(at);
}

__global__ void AddBiasFloat4Kernel(const float* bias, Tensor y) {
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  TriggerProgrammaticLaunch();
  if (c >= y.cols) return;
  const float4 added = Float4At(bias, c);
  GridDependencySync();
  auto* at = reinterpret_cast<float4*>(static_cast<float*>(y.data) + blockIdx.y * y.stride + c);
  float4 value = *at;
  value.x += added.x, value.y += added.y, value.z += added.z, value.w += added.w;
  *at = value;
}

__global__ void ActivateKernel(Tensor x, Activation activation) {
  BeginDependentKernel();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, at = blockIdx.y * x.stride + c;
  if (c >= x.cols) return;
  StoreElement(x.data, x.dtype, at, ActivatedOf(LoadElement(x.data, x.dtype, at), activation));
}

__global__ void AddKernel(Tensor x, Tensor y) {
  BeginDependentKernel();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= x.cols) return;
  static_cast<float*>(y.data)[blockIdx.y * y.stride + c] += LoadElement(x.data, x.dtype, blockIdx.y * x.stride + c);
}

__global__ void SoftCapKernel(Tensor x, float cap) {
  BeginDependentKernel();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, at = blockIdx.y * x.stride + c;
  if (c >= x.cols) return;
  StoreElement(x.data, x.dtype, at, cap * tanhf(LoadElement(x.data, x.dtype, at) / cap));
}

__global__ void GatherKernel(Tensor x, const int32_t* rows, Tensor y) {
  BeginDependentKernel();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= y.cols) return;
  const int64_t row = rows == nullptr ? blockIdx.y : rows[blockIdx.y];
  StoreElement(y.data, y.dtype, blockIdx.y * y.stride + c, LoadElement(x.data, x.dtype, row * x.stride + c));
}

__global__ void PermuteColumnsKernel(Tensor x, const int32_t* columns, Tensor y) {
  BeginDependentKernel();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= y.cols) return;
  StoreElement(y.data, y.dtype, blockIdx.y * y.stride + c,
               LoadElement(x.data, x.dtype, blockIdx.y * x.stride + columns[c]));
}

__global__ void AddBiasKernel(const float* bias, Tensor y) {
  BeginDependentKernel();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, at = blockIdx.y * y.stride + c;
  if (c >= y.cols) return;
  StoreElement(y.data, y.dtype, at, LoadElement(y.data, y.dtype, at) + bias[c]);
}

/// Whether rows of 16-bit elements can be accessed eight at a time.
bool AllowsVec8(const Tensor& x, DType dtype, int64_t cols) {
  return x.dtype == dtype && (dtype == DType::kF16 || dtype == DType::kBF16) && cols % 8 == 0 && x.stride % 8 == 0 &&
         Aligned(x.data);
}

__global__ void UploadKernel(uint4* to, const uint4* from, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i];
}

void LaunchBias(const Launcher& on, Tensor x, const float* bias, BiasEpilogue epilogue) {
  const auto kernel = x.dtype == DType::kF16 ? BiasWideKernel<__half> : BiasWideKernel<__nv_bfloat16>;
  Launch(on, kernel, ElementGrid(x.rows, x.cols / 8), kBlockThreads, 0, x, bias, epilogue);
}

}  // namespace

int LoadedCodeArchitecture() {
  cudaFuncAttributes attributes = {};
  if (cudaFuncGetAttributes(&attributes, UploadKernel) == cudaSuccess) return attributes.ptxVersion * 10;
  cudaGetLastError();  // clear the error: the caller sees the 0
  return 0;
}

std::array<int, kMaxClusterBlocks + 1> QueryResidentClusters(int multiprocessors, int largest_cluster) {
  constexpr size_t kMaxSharedBytes = 160 << 10;  // shared memory per block: two do not fit on one SM
  std::array<int, kMaxClusterBlocks + 1> out = {0, multiprocessors};
  for (int blocks = 2; blocks <= largest_cluster; ++blocks) {
    out[static_cast<size_t>(blocks)] = MaxActiveClusters(UploadKernel, blocks, kBlockThreads, kMaxSharedBytes);
  }
  return out;
}

void LaunchEmbed(const Launcher& on, const void* table, DType dtype, const float* scales, const int32_t* ids,
                 const int32_t* sampled, float scale, Tensor y, bool accumulate) {
  // Few rows are bound by latency: a thread has one element. Many blocks per row of many would only be launched slowly.
  const int64_t blocks = y.rows <= on.multiprocessors ? (y.cols + kBlockThreads - 1) / kBlockThreads : 1;
  Launch(on, EmbedKernel, Grid(y.rows, blocks), kBlockThreads, 0, table, dtype, scales, ids, sampled, scale, y,
         accumulate);
}

void LaunchNorm(const Launcher& on, Tensor x, const float* weight, const float* bias, bool layer, float eps, Tensor y,
                const float* added) {
  NormArgs a{.x = x, .added = added, .weight = weight, .bias = bias, .layer = layer, .eps = eps, .y = y};
  const bool wide = AllowsFloat4(x) && AllowsFloat4(y) && Aligned(weight) && Aligned(bias) && Aligned(added);
  if (!wide || x.cols > 32 * kBlockThreads) {
    if (added != nullptr) LaunchAddBias(on, added, x);
    a.added = nullptr;
    return Launch(on, NormKernel, Grid(x.rows), kBlockThreads, 0, a);
  }
  const int warps = x.rows <= on.multiprocessors ? 1 : kBlockThreads / 32;
  const auto a_warp_each = [&](auto kernel) {
    Launch(on, kernel, Grid((x.rows + warps - 1) / warps), warps * 32, 0, a);
  };
  const auto a_block_each = [&](auto kernel) { Launch(on, kernel, Grid(x.rows), kBlockThreads, 0, a); };
  if (x.cols <= 640) return a_warp_each(NormWideKernel<32, 5>);
  if (x.cols <= 1024) return a_warp_each(NormWideKernel<32, 8>);
  if (x.cols <= 2048) return a_block_each(NormWideKernel<kBlockThreads, 2>);
  if (x.cols <= 4096) return a_block_each(NormWideKernel<kBlockThreads, 4>);
  a_block_each(NormWideKernel<kBlockThreads, 8>);
}

void LaunchNormHeads(const Launcher& on, Tensor x, const HeadsNorm& first, const HeadsNorm& next, const HeadsGate& gate,
                     float eps) {
  constexpr int kWarps = kBlockThreads / 32;
  const auto heads = static_cast<int>(first.heads + next.heads), d = static_cast<int>(x.cols) / heads;
  const NormHeadsArgs a{x, first, next, gate, heads, d, eps};
  const int64_t count = x.rows * heads;
  const auto a_warp_each = [&](auto kernel) {
    Launch(on, kernel, Grid((count + kWarps - 1) / kWarps), kBlockThreads, 0, a);
  };
  const bool weights = Aligned(first.weight) && Aligned(next.weight);  // null counts as aligned
  const bool gates = gate.values.data == nullptr || AllowsFloat4(gate.values);
  if (d % 4 != 0 || d > 4096 || !AllowsFloat4(x) || !weights || !gates) return a_warp_each(NormHeadsKernel);
  if (d <= 128) return a_warp_each(NormHeadsWideKernel<32, 1>);
  if (d <= 256) return a_warp_each(NormHeadsWideKernel<32, 2>);
  Launch(on, NormHeadsWideKernel<kBlockThreads, 4>, Grid(count), kBlockThreads, 0, a);
}

void LaunchMultiplyActivated(const Launcher& on, Tensor x, Activation activation, Tensor y) {
  if (activation == Activation::kSilu && AllowsVec8(x, x.dtype, y.cols) && AllowsVec8(y, x.dtype, y.cols)) {
    const auto kernel = x.dtype == DType::kF16 ? SiluMultiplyWideKernel<__half> : SiluMultiplyWideKernel<__nv_bfloat16>;
    return Launch(on, kernel, ElementGrid(y.rows, y.cols / 8), kBlockThreads, 0, x, y);
  }
  Launch(on, MultiplyActivatedKernel, ElementGrid(y.rows, y.cols), kBlockThreads, 0, x, activation, y);
}

void LaunchActivate(const Launcher& on, Tensor x, Activation activation, const float* bias) {
  const bool gelu = activation == Activation::kGeluTanh || activation == Activation::kGeluErf;
  if (gelu && AllowsVec8(x, x.dtype, x.cols) && Aligned(bias)) {
    return LaunchBias(on, x, bias,
                      activation == Activation::kGeluTanh ? BiasEpilogue::kGeluTanh : BiasEpilogue::kGeluErf);
  }
  if (bias != nullptr) LaunchAddBias(on, bias, x);
  Launch(on, ActivateKernel, ElementGrid(x.rows, x.cols), kBlockThreads, 0, x, activation);
}

void LaunchAdd(const Launcher& on, Tensor x, Tensor y) {
  Launch(on, AddKernel, ElementGrid(x.rows, x.cols), kBlockThreads, 0, x, y);
}

void LaunchSoftCap(const Launcher& on, Tensor x, float cap) {
  Launch(on, SoftCapKernel, ElementGrid(x.rows, x.cols), kBlockThreads, 0, x, cap);
}

void LaunchGatherRows(const Launcher& on, Tensor x, const int32_t* rows, Tensor y) {
  Launch(on, GatherKernel, ElementGrid(y.rows, y.cols), kBlockThreads, 0, x, rows, y);
}

void LaunchPermuteColumns(const Launcher& on, Tensor x, const int32_t* columns, Tensor y) {
  Launch(on, PermuteColumnsKernel, ElementGrid(y.rows, y.cols), kBlockThreads, 0, x, columns, y);
}

void LaunchConvert(const Launcher& on, Tensor x, Tensor y) { LaunchGatherRows(on, x, nullptr, y); }

void LaunchUpload(const Launcher& on, void* to, const void* from, size_t bytes) {
  Launcher alone = on;
  alone.overlap = false;  // not part of a programmatic dependent launch chain
  const auto count = static_cast<int64_t>(bytes / sizeof(uint4));
  Launch(alone, UploadKernel, Grid((count + kBlockThreads - 1) / kBlockThreads), kBlockThreads, 0,
         static_cast<uint4*>(to), static_cast<const uint4*>(from), count);
}

void LaunchAddBias(const Launcher& on, const float* bias, Tensor y) {
  if (AllowsVec8(y, y.dtype, y.cols) && Aligned(bias)) return LaunchBias(on, y, bias, BiasEpilogue::kNothing);
  if (y.dtype == DType::kF32 && AllowsFloat4(y) && Aligned(bias)) {
    return Launch(on, AddBiasFloat4Kernel, ElementGrid(y.rows, y.cols / 4), kBlockThreads, 0, bias, y);
  }
  Launch(on, AddBiasKernel, ElementGrid(y.rows, y.cols), kBlockThreads, 0, bias, y);
}

}  // namespace ringside::cuda
