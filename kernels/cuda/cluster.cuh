// Thread block clusters and distributed shared memory (DSMEM). On devices without clusters every block is a cluster of
// one. Included by .cu files only.
#pragma once

#include <cstdint>

namespace ringside::cuda {

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ int ClusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
__device__ __forceinline__ int ClusterBlocks() {
  uint32_t blocks;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return static_cast<int>(blocks);
}
__device__ __forceinline__ void ClusterSync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
/// Maps a shared-memory address to the same variable in another block of the cluster. A block should access its own
/// copy directly: DSMEM accesses cross the SM-to-SM network, at about 8 bytes a cycle per SM.
template <class T>
__device__ __forceinline__ const T* MapToBlock(const T* own, int rank) {
  uint64_t out;
  asm("mapa.u64 %0, %1, %2;" : "=l"(out) : "l"(own), "r"(rank));
  return reinterpret_cast<const T*>(out);
}
#else
__device__ __forceinline__ int ClusterRank() { return 0; }
__device__ __forceinline__ int ClusterBlocks() { return 1; }
__device__ __forceinline__ void ClusterSync() { __syncthreads(); }
template <class T>
__device__ __forceinline__ const T* MapToBlock(const T* own, int) {
  return own;
}
#endif

/// `sum` + the float4 at `from` in each block of the cluster, in rank order.
__device__ __forceinline__ float4 ReduceFloat4OverCluster(const float* from, int blocks, float4 sum) {
  const auto add = [&](const float4& part) { sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w; };
  if (blocks == 1) {
    add(*reinterpret_cast<const float4*>(from));
    return sum;
  }
  constexpr int kMaxBlocks = 8;
  float4 parts[kMaxBlocks];  // all loads in flight at once
#pragma unroll
  for (int b = 0; b < kMaxBlocks; ++b) {
    if (b < blocks) parts[b] = *reinterpret_cast<const float4*>(MapToBlock(from, b));
  }
#pragma unroll
  for (int b = 0; b < kMaxBlocks; ++b) {
    if (b < blocks) add(parts[b]);
  }
  return sum;
}

/// The cluster barrier in two halves. Writes before the arrival are visible to every thread of the cluster after the
/// wait.
/// REQUIRES: all threads of all blocks of the cluster take part each time.
__device__ __forceinline__ void ArriveAtCluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
__device__ __forceinline__ void WaitForCluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
/// Stores into another block's shared memory, at the place that has `address` in this block.
__device__ __forceinline__ void StoreInCluster(uint32_t address, int rank, float value) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; st.shared::cluster.f32 [there], %2; }" ::"r"(address),
      "r"(rank), "f"(value)
      : "memory");
#endif
}
__device__ __forceinline__ void StoreInCluster(uint32_t address, int rank, float2 value) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; st.shared::cluster.v2.f32 [there], {%2, %3}; }" ::"r"(
          address),
      "r"(rank), "f"(value.x), "f"(value.y)
      : "memory");
#endif
}
__device__ __forceinline__ void StoreInCluster(uint32_t address, int rank, float4 value) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; st.shared::cluster.v4.f32 [there], {%2, %3, %4, %5}; "
      "}" ::"r"(address),
      "r"(rank), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
      : "memory");
#endif
}

}  // namespace ringside::cuda
