// Quantised weights as rows of 16 bits: for products of many rows, and for look-ups.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/quantised_layout.h"
#include "kernels/cuda/quantised_weights.cuh"

namespace ringside::cuda {
namespace {

__device__ __forceinline__ float2 Floats(uint32_t pair, __half) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}
__device__ __forceinline__ float2 Floats(uint32_t pair, __nv_bfloat16) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}

template <class T>
__device__ __forceinline__ uint32_t ScalePair(uint32_t pair, float scale) {
  const float2 x = Floats(pair, T());
  return Pack(x.x * scale, x.y * scale, T());
}

constexpr int kGroups = 2;  // of a thread: enough bytes under way

/// A group of 16 inputs, in order.
struct Group {
  uint32_t low[4], high[4];
};
template <class T, class W>
__device__ __forceinline__ Group Expand(uint4 bytes, float scale) {
  const uint32_t words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
  Group out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out.low[i] = ScalePair<T>(LowPair(words[i], W(), T()), scale);
    out.high[i] = ScalePair<T>(HighPair(words[i], W(), T()), scale);
  }
  return out;
}

/// Two neighbours store both groups of 32 bytes together, the first one's first: whole sectors of memory.
__device__ __forceinline__ void StorePair(Group group, uint4* to, bool first_is_there, bool second_is_there) {
  const bool second = threadIdx.x % 2 == 1;
  uint32_t mine[4], others[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    others[i] = __shfl_xor_sync(0xffffffffu, second ? group.low[i] : group.high[i], 1);
    mine[i] = second ? group.high[i] : group.low[i];
  }
  const uint4 own = {mine[0], mine[1], mine[2], mine[3]}, other = {others[0], others[1], others[2], others[3]};
  if (first_is_there) to[second ? 1 : 0] = second ? other : own;
  if (second_is_there) to[second ? 3 : 2] = second ? own : other;
}

/// `whole`: rows are whole groups, so that the groups of y lie one behind the other.
template <class T, class W>
__global__ void ExpandRowsKernel(const W* weight, const float* scales, int groups, int groups_of_row, int cols,
                                 bool whole, T* y) {
  const int first = static_cast<int>(blockIdx.x) * kGroups * kBlockThreads + static_cast<int>(threadIdx.x);
  LetNextStart();
  uint4 bytes[kGroups];
  float scale[kGroups];
#pragma unroll
  for (int i = 0; i < kGroups; ++i) {
    const int group = min(first + i * kBlockThreads, groups - 1);
    bytes[i] = LoadWeightBytes(weight + static_cast<int64_t>(group) * kQuantisedGroup);
    scale[i] = scales[group / groups_of_row] * kUnitOf<T, W>;
  }
  WaitForStep();  // y may still be read
#pragma unroll
  for (int i = 0; i < kGroups; ++i) {
    const int group = first + i * kBlockThreads;
    const Group out = Expand<T, W>(bytes[i], scale[i]);
    if (whole) {
      const int even = group / 2 * 2;
      StorePair(out, reinterpret_cast<uint4*>(y) + int64_t{even} * 2, even < groups, even + 1 < groups);
    } else if (group < groups) {
      const int begin = group % groups_of_row * kQuantisedGroup;
      T* to = y + static_cast<int64_t>(group / groups_of_row) * cols + begin;
#pragma unroll
      for (int c = 0; c < kQuantisedGroup; ++c) {
        if (begin + c < cols) to[c] = reinterpret_cast<const T*>(&out)[c];
      }
    }
  }
}

template <class T>
void LaunchOfType(const Launcher& on, const void* weight, DType dtype, const float* scales, Tensor y) {
  const int64_t groups_of_row = QuantisedRowBytes(y.cols) / kQuantisedGroup, groups = y.rows * groups_of_row;
  CHECK_LE(groups, int64_t{1} << 30);
  const bool whole = y.cols % kQuantisedGroup == 0 && reinterpret_cast<uintptr_t>(y.data) % 16 == 0;
  const auto launch = [&](auto kernel, const auto* elements) {
    Launch(on, kernel, Grid((groups + kGroups * kBlockThreads - 1) / (kGroups * kBlockThreads)), kBlockThreads, 0,
           elements, scales, static_cast<int>(groups), static_cast<int>(groups_of_row), static_cast<int>(y.cols), whole,
           static_cast<T*>(y.data));
  };
  if (dtype == DType::kI8) return launch(ExpandRowsKernel<T, Int8>, static_cast<const Int8*>(weight));
  launch(ExpandRowsKernel<T, E4M3>, static_cast<const E4M3*>(weight));
}

}  // namespace

void LaunchExpandRows(const Launcher& on, const void* weight, DType dtype, const float* scales, Tensor y) {
  CHECK(HasRowScales(dtype));
  CHECK_EQ(y.stride, y.cols);
  if (y.dtype == DType::kF16) return LaunchOfType<__half>(on, weight, dtype, scales, y);
  LaunchOfType<__nv_bfloat16>(on, weight, dtype, scales, y);
}

}  // namespace ringside::cuda
