// How kernels of ranks see what others have written, and wait for it. Included by .cu files only.
#pragma once

#include "kernels/cuda/ranks/rank_links.h"

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

/// Looks until it is there, or for too long: then this rank waits for nobody any more.
template <class Look>
__device__ __forceinline__ void WaitUntil(const RankLinks& links, const Look& look) {
  uint64_t began = 0;
  for (int i = 0; !look(); ++i) {
    if (i % 1024 != 1023) continue;
    if (LoadOne(links.lost) != 0) return;
    const uint64_t now = Nanoseconds();
    if (began == 0) began = now;
    if (now - began < links.patience_ns) continue;
    *static_cast<volatile uint32_t*>(links.lost) = 1;
    *static_cast<volatile uint32_t*>(links.lost_on_host) = 1;
    return;
  }
}

/// The last block of a call ends it.
__device__ __forceinline__ void EndCall(const RankLinks& links, uint32_t call) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(links.blocks_ended, 1) + 1 < gridDim.x) return;
  *links.blocks_ended = 0;
  __threadfence();
  *links.calls = call;
}

}  // namespace ringside::cuda
