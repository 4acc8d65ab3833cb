// Measures the ceilings that figures of a GPU are put beside: how fast all multiprocessors together read its memory, by
// the fastest of a few ways, and how fast pinned host memory is copied to and from it. One JSON object a measurement,
// GB/s (10^9) of the median.
//   memory_rate
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace {

constexpr size_t kReadBytes = size_t{8} << 30, kCopyBytes = size_t{1} << 30;
constexpr int kRounds = 9, kThreads = 512;

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

// kAtOnce loads of 16 bytes are on their way in every thread; the sum only keeps them.
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

double Rate(const char* name, size_t bytes, const std::function<void()>& run) {
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
  return static_cast<double>(bytes) / times[times.size() / 2] / 1e6;
}
void Print(const char* name, double rate) { std::printf("{\"name\":\"%s\",\"gb_per_s\":%.1f}\n", name, rate); }

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
  return 0;
}
