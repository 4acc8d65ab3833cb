// Measures the limits that GPU figures are compared with: memory read bandwidth of all multiprocessors, by the fastest
// of several methods, copy bandwidth to and from pinned host memory, and the rate of cuBLAS on large bfloat16 matrices
// (random ones: power consumption depends on the data). One JSON object per measurement, median GB/s (10^9) or TFLOP/s.
//   device_ceilings
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace {

constexpr size_t kReadBytes = size_t{8} << 30, kCopyBytes = size_t{1} << 30;
constexpr int64_t kMatrix = 8192;
constexpr int kRounds = 9, kThreads = 512;

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

// Each thread has kAtOnce loads of 16 bytes in flight; the sum only keeps them alive.
template <int kAtOnce>
__global__ void __launch_bounds__(kThreads) Read(const uint4* from, int64_t count, uint32_t* sums) {
  uint32_t sum = 0;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads * kAtOnce;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads * kAtOnce + threadIdx.x; i < count; i += step) {
    uint4 v[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      v[j] = i + j * kThreads < count ? __ldcs(from + i + j * kThreads) : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) sum += v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
  }
  if (sum == 0x5eed5eed) sums[blockIdx.x] = sum;
}

// Sign and mantissa are random, magnitudes 1/64 to 1/32.
__global__ void FillAtRandom(uint16_t* x) {
  uint64_t bits = (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
  x[static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x] = (bits >> 40 & 0x807f) | 0x3c80;
}

// `amount` per run, in 10^9 per second.
double Rate(const char* name, double amount, const std::function<void()>& run) {
  cudaEvent_t begin, end;
  Check(cudaEventCreate(&begin), "cudaEventCreate");
  Check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> times;
  for (int i = 0; i <= kRounds; ++i) {
    Check(cudaEventRecord(begin), "cudaEventRecord");
    run();
    Check(cudaEventRecord(end), "cudaEventRecord");
    Check(cudaEventSynchronize(end), name);
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (i > 0) times.push_back(milliseconds);
  }
  std::sort(times.begin(), times.end());
  return amount / times[times.size() / 2] / 1e6;
}
void Print(const char* name, double rate) { std::printf("{\"name\":\"%s\",\"gb_per_s\":%.1f}\n", name, rate); }

double ProductRate(void* memory) {
  auto* a = static_cast<uint16_t*>(memory);
  uint16_t *b = a + kMatrix * kMatrix, *c = b + kMatrix * kMatrix;
  FillAtRandom<<<static_cast<unsigned>(2 * kMatrix * kMatrix / kThreads), kThreads>>>(a);
  Check(cudaGetLastError(), "FillAtRandom");
  cublasHandle_t cublas = nullptr;
  const auto check = [](cublasStatus_t status) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    std::fprintf(stderr, "cuBLAS: %s\n", cublasGetStatusString(status));
    std::exit(1);
  };
  check(cublasCreate(&cublas));
  const float one = 1, zero = 0;
  const int n = kMatrix;
  return Rate("products", 2.0 * kMatrix * kMatrix * kMatrix, [&] {
    check(cublasGemmEx(cublas, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a, CUDA_R_16BF, n, b, CUDA_R_16BF, n, &zero, c,
                       CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  });
}

}  // namespace

int main() {
  cudaDeviceProp device;
  Check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  void *memory = nullptr, *host = nullptr, *sums = nullptr;
  Check(cudaMalloc(&memory, kReadBytes), "cudaMalloc");
  Check(cudaMalloc(&sums, 65536 * sizeof(uint32_t)), "cudaMalloc");
  Check(cudaHostAlloc(&host, kCopyBytes, cudaHostAllocDefault), "cudaHostAlloc");
  Check(cudaMemset(memory, 0x5a, kReadBytes), "cudaMemset");
  double fastest = 0;
  for (const auto kernel : {Read<1>, Read<2>, Read<4>, Read<8>}) {
    for (const int blocks_each : {1, 2, 4, 16}) {
      const auto blocks = static_cast<unsigned>(device.multiProcessorCount * blocks_each);
      fastest = std::max(fastest, Rate("read", kReadBytes, [&] {
                           kernel<<<blocks, kThreads>>>(static_cast<const uint4*>(memory), kReadBytes / sizeof(uint4),
                                                        static_cast<uint32_t*>(sums));
                           Check(cudaGetLastError(), "Read");
                         }));
    }
  }
  Print("read", fastest);
  Print("copy_in", Rate("copy_in", kCopyBytes, [&] {
          Check(cudaMemcpyAsync(memory, host, kCopyBytes, cudaMemcpyHostToDevice), "cudaMemcpyAsync");
        }));
  Print("copy_out", Rate("copy_out", kCopyBytes, [&] {
          Check(cudaMemcpyAsync(host, memory, kCopyBytes, cudaMemcpyDeviceToHost), "cudaMemcpyAsync");
        }));
  std::printf("{\"name\":\"products\",\"tflop_per_s\":%.0f}\n", ProductRate(memory) / 1e3);
  return 0;
}
