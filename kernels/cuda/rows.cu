// Operations on single rows: look-ups, norms, activations. Each is bound by launch and memory, so each is the plainest
// kernel that reads and writes along rows.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {
namespace {

__global__ void EmbedKernel(const void* table, DType dtype, const int32_t* ids, const int32_t* chosen, Tensor y,
                            bool accumulate) {
  StartStep();
  const int32_t id = ids[blockIdx.x];
  const int64_t from = static_cast<int64_t>(id >= 0 ? id : chosen[~id]) * y.cols, to = blockIdx.x * y.stride;
  for (int64_t c = threadIdx.x; c < y.cols; c += blockDim.x) {
    const float value = LoadElement(table, dtype, from + c);
    StoreElement(y.data, y.dtype, to + c, accumulate ? LoadElement(y.data, y.dtype, to + c) + value : value);
  }
}

// x may be y: a thread reads an element before it writes it, and the sums are over before anything is written.
__global__ void __launch_bounds__(kBlockThreads)
    NormKernel(Tensor x, const float* weight, const float* bias, bool layer, float eps, Tensor y) {
  __shared__ float shared[kBlockThreads / 32];
  StartStep();
  NormRow<8>(static_cast<const float*>(x.data) + blockIdx.x * x.stride, weight, bias, static_cast<int>(x.cols), layer,
             eps, shared, [&](int c, float value) { StoreElement(y.data, y.dtype, blockIdx.x * y.stride + c, value); });
}

// One warp a head.
__global__ void NormHeadsKernel(Tensor x, int heads, const float* weight, float eps) {
  StartStep();
  const int64_t item = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (item >= x.rows * heads) return;
  const int d = static_cast<int>(x.cols) / heads;
  const int64_t at = item / heads * x.stride + item % heads * d;
  float sum = 0;
  for (int i = threadIdx.x % 32; i < d; i += 32) {
    const float value = LoadElement(x.data, x.dtype, at + i);
    sum += value * value;
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  const float factor = rsqrtf(sum / d + eps);
  for (int i = threadIdx.x % 32; i < d; i += 32) {
    StoreElement(x.data, x.dtype, at + i, LoadElement(x.data, x.dtype, at + i) * factor * weight[i]);
  }
}

__global__ void SiluMultiplyKernel(Tensor x, Tensor y) {
  StartStep();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, from = blockIdx.y * x.stride;
  if (c >= y.cols) return;
  const float gate = LoadElement(x.data, x.dtype, from + c), up = LoadElement(x.data, x.dtype, from + y.cols + c);
  StoreElement(y.data, y.dtype, blockIdx.y * y.stride + c, SiluOf(gate) * up);
}

/// Eight elements of 16 bits, as floats and back.
template <class T>
struct Eight {
  float x[8];
  __device__ static Eight Load(const T* p) {
    const uint4 bits = *reinterpret_cast<const uint4*>(p);
    Eight out;
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
  StartStep();
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 8;
  if (c >= y.cols) return;
  const T* from = static_cast<const T*>(x.data) + blockIdx.y * x.stride + c;
  Eight<T> gate = Eight<T>::Load(from);
  const Eight<T> up = Eight<T>::Load(from + y.cols);
#pragma unroll
  for (int i = 0; i < 8; ++i) gate.x[i] = SiluOf(gate.x[i]) * up.x[i];
  gate.Store(static_cast<T*>(y.data) + blockIdx.y * y.stride + c);
}

template <class T>
__global__ void GeluWideKernel(Tensor x, bool tanh_approximation) {
  StartStep();
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 8;
  if (c >= x.cols) return;
  T* at = static_cast<T*>(x.data) + blockIdx.y * x.stride + c;
  Eight<T> values = Eight<T>::Load(at);
#pragma unroll
  for (float& value : values.x) value = GeluOf(value, tanh_approximation);
  values.Store(at);
}

__global__ void GeluKernel(Tensor x, bool tanh_approximation) {
  StartStep();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, at = blockIdx.y * x.stride + c;
  if (c >= x.cols) return;
  StoreElement(x.data, x.dtype, at, GeluOf(LoadElement(x.data, x.dtype, at), tanh_approximation));
}

__global__ void GatherKernel(Tensor x, const int32_t* rows, Tensor y) {
  StartStep();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= y.cols) return;
  const int64_t row = rows == nullptr ? blockIdx.y : rows[blockIdx.y];
  StoreElement(y.data, y.dtype, blockIdx.y * y.stride + c, LoadElement(x.data, x.dtype, row * x.stride + c));
}

__global__ void AddBiasKernel(const float* bias, Tensor y) {
  StartStep();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, at = blockIdx.y * y.stride + c;
  if (c >= y.cols) return;
  StoreElement(y.data, y.dtype, at, LoadElement(y.data, y.dtype, at) + bias[c]);
}

/// Whether rows of 16-bit elements may be read eight at a time.
bool AllowsEights(const Tensor& x, DType dtype, int64_t cols) {
  return x.dtype == dtype && (dtype == DType::kF16 || dtype == DType::kBF16) && cols % 8 == 0 && x.stride % 8 == 0 &&
         reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

__global__ void UploadKernel(uint4* to, const uint4* from, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i];
}

dim3 ElementGrid(int64_t rows, int64_t cols) { return Grid((cols + kBlockThreads - 1) / kBlockThreads, rows); }

}  // namespace

int LoadedArchitecture() {
  cudaFuncAttributes attributes = {};
  if (cudaFuncGetAttributes(&attributes, UploadKernel) == cudaSuccess) return attributes.ptxVersion * 10;
  cudaGetLastError();  // answered by the 0
  return 0;
}

void LaunchEmbed(const Launcher& on, const void* table, DType dtype, const int32_t* ids, const int32_t* chosen,
                 Tensor y, bool accumulate) {
  Launch(on, EmbedKernel, Grid(y.rows), kBlockThreads, 0, table, dtype, ids, chosen, y, accumulate);
}

void LaunchNorm(const Launcher& on, Tensor x, const float* weight, const float* bias, bool layer, float eps, Tensor y) {
  Launch(on, NormKernel, Grid(x.rows), kBlockThreads, 0, x, weight, bias, layer, eps, y);
}

void LaunchNormHeads(const Launcher& on, Tensor x, int64_t heads, const float* weight, float eps) {
  constexpr int kWarps = kBlockThreads / 32;
  Launch(on, NormHeadsKernel, Grid((x.rows * heads + kWarps - 1) / kWarps), kBlockThreads, 0, x,
         static_cast<int>(heads), weight, eps);
}

void LaunchSiluMultiply(const Launcher& on, Tensor x, Tensor y) {
  if (AllowsEights(x, x.dtype, y.cols) && AllowsEights(y, x.dtype, y.cols)) {
    const auto kernel = x.dtype == DType::kF16 ? SiluMultiplyWideKernel<__half> : SiluMultiplyWideKernel<__nv_bfloat16>;
    return Launch(on, kernel, ElementGrid(y.rows, y.cols / 8), kBlockThreads, 0, x, y);
  }
  Launch(on, SiluMultiplyKernel, ElementGrid(y.rows, y.cols), kBlockThreads, 0, x, y);
}

void LaunchGelu(const Launcher& on, Tensor x, bool tanh_approximation) {
  if (AllowsEights(x, x.dtype, x.cols)) {
    const auto kernel = x.dtype == DType::kF16 ? GeluWideKernel<__half> : GeluWideKernel<__nv_bfloat16>;
    return Launch(on, kernel, ElementGrid(x.rows, x.cols / 8), kBlockThreads, 0, x, tanh_approximation);
  }
  Launch(on, GeluKernel, ElementGrid(x.rows, x.cols), kBlockThreads, 0, x, tanh_approximation);
}

void LaunchGatherRows(const Launcher& on, Tensor x, const int32_t* rows, Tensor y) {
  Launch(on, GatherKernel, ElementGrid(y.rows, y.cols), kBlockThreads, 0, x, rows, y);
}

void LaunchConvert(const Launcher& on, Tensor x, Tensor y) { LaunchGatherRows(on, x, nullptr, y); }

void LaunchUpload(const Launcher& on, void* to, const void* from, size_t bytes) {
  Launcher alone = on;
  alone.overlap = false;  // it takes part in no chain of kernels that wait for one another
  const auto count = static_cast<int64_t>(bytes / sizeof(uint4));
  Launch(alone, UploadKernel, Grid((count + kBlockThreads - 1) / kBlockThreads), kBlockThreads, 0,
         static_cast<uint4*>(to), static_cast<const uint4*>(from), count);
}

void LaunchAddBias(const Launcher& on, const float* bias, Tensor y) {
  Launch(on, AddBiasKernel, ElementGrid(y.rows, y.cols), kBlockThreads, 0, bias, y);
}

}  // namespace ringside::cuda
