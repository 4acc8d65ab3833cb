// How kernels read data written by other devices, and wait for it. Included by .cu files only.
#pragma once

#include <cstdint>

#include "kernels/cuda/ranks/rank_timeout.h"

namespace ringside::cuda {

__device__ __forceinline__ uint64_t Nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}
__device__ __forceinline__ void StoreWord(uint4* to, uint4 word) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word.x), "r"(word.y), "r"(word.z),
               "r"(word.w)
               : "memory");
}
__device__ __forceinline__ uint4 LoadWord(const uint4* from) {
  uint4 word;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
               : "l"(from)
               : "memory");
  return word;
}
__device__ __forceinline__ uint32_t LoadOne(const uint32_t* from) {
  uint32_t value;
  asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
/// Publishes a value to another device, ordered after everything that this thread has observed.
__device__ __forceinline__ void Publish(uint32_t* to, uint32_t value) {
  __threadfence_system();
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
/// Whether another device has published call `value`; its earlier writes are then visible. It is at most `ahead` calls
/// further; a larger difference predates a wrap-around of the numbers.
__device__ __forceinline__ bool HasPublished(const uint32_t* from, uint32_t value, uint32_t ahead) {
  uint32_t published;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(published) : "l"(from) : "memory");
  return published - value <= ahead;
}

/// Polls until look() is true or the timeout expires; after that this rank waits for no other.
template <class Look>
__device__ __forceinline__ void WaitUntil(const RankTimeout& timeout, const Look& look) {
  uint64_t began = 0;
  for (int i = 0; !look(); ++i) {
    if (i % 1024 != 1023) continue;
    if (LoadOne(timeout.lost) != 0 || LoadOne(timeout.lost_on_host) != 0) return;
    const uint64_t now = Nanoseconds();
    if (began == 0) began = now;
    if (now - began < timeout.ns) continue;
    *static_cast<volatile uint32_t*>(timeout.lost) = 1;
    *static_cast<volatile uint32_t*>(timeout.lost_on_host) = 1;
    return;
  }
}

/// Called by all threads of all blocks once they have read the call number; the last block advances it for the next
/// kernel. Done early, while waiting for other ranks, it costs no time.
__device__ __forceinline__ void CountCall(uint32_t* blocks_started, uint32_t* calls, uint32_t call) {
  __syncthreads();
  if (threadIdx.x + 1 < blockDim.x || (gridDim.x > 1 && atomicAdd(blocks_started, 1) + 1 < gridDim.x)) return;
  *blocks_started = 0;
  *calls = call;
}

/// Called by all threads of all blocks at the end of a call; the last block ends it. True in the thread that did.
__device__ __forceinline__ bool EndCall(uint32_t* blocks_ended, uint32_t* calls, uint32_t call) {
  __syncthreads();
  if (threadIdx.x != 0) return false;
  __threadfence();
  if (atomicAdd(blocks_ended, 1) + 1 < gridDim.x) return false;
  *blocks_ended = 0;
  __threadfence();
  *calls = call;
  return true;
}

}  // namespace ringside::cuda
