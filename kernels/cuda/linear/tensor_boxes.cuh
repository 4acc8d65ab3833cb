// TMA copies into shared memory, and WGMMAs whose operands are TMA boxes in shared memory (tensor_map.h). Only for
// sm_90a; included by .cu files.
#pragma once

#include <cuda.h>

#include "kernels/cuda/wgmma.cuh"

namespace ringside::cuda {

// ---- copies of boxes into shared memory

constexpr uint64_t kReadOnce = 0x12f0000000000000u, kReadAgain = 0x14f0000000000000u;  // L2: evict first, last

__device__ __forceinline__ void CopyBox(uint32_t to, const CUtensorMap& map, int column, int row, uint32_t barrier,
                                        uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}],"
      " [%4], %5;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier), "l"(policy)
      : "memory");
}
/// Bulk copy of `bytes` contiguous bytes; size and addresses are multiples of 16.
__device__ __forceinline__ void CopyRun(uint32_t to, const void* from, int bytes, uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}
/// A box of MapGateUp.
__device__ __forceinline__ void CopyGateUpBox(uint32_t to, const CUtensorMap& map, int column, int eight,
                                             uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3,"
      " %3, %4}], [%5], %6;" ::"r"(to),
      "l"(&map), "r"(column), "r"(0), "r"(eight), "r"(barrier), "l"(policy)
      : "memory");
}

// ---- products

/// WGMMA descriptor of a box at a shared address that is a multiple of 1,024; eight rows take 1,024 bytes. The upper
/// half is the same for all boxes; 16 bytes further within a box add one to the lower half.
constexpr uint32_t kBoxDescriptorHigh = 64u | 1u << 30;
__device__ __forceinline__ uint32_t BoxDescriptorLow(uint32_t address) { return (address & 0x3ffff) >> 4 | 1u << 16; }
__device__ __forceinline__ uint64_t BoxDescriptor(uint32_t address) {
  return static_cast<uint64_t>(kBoxDescriptorHigh) << 32 | BoxDescriptorLow(address);
}
/// c [64, N] += a [64, 16] b [N, 16]^T by a warp group. Thread t holds rows t / 32 * 16 + t % 32 / 4 (+ 8) and columns
/// 8 j + t % 4 * 2 (+ 1) as c[4 j + ...]. With `left`, a is in registers, a warp's 16 rows in the layout of
/// mma.m16n8k16, and b is given by the lower half of its descriptor: 64-bit additions would cost a quarter of the
/// dequantization.
template <int kN, class T>
struct Wgmma;

#define RINGSIDE_C4(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define RINGSIDE_C16(c, i) RINGSIDE_C4(c, i), RINGSIDE_C4(c, i + 4), RINGSIDE_C4(c, i + 8), RINGSIDE_C4(c, i + 12)
#define RINGSIDE_ADD(n, type, name, registers, a_place, b_place, left_places, right_low, right_high, ...)            \
  template <>                                                                                                        \
  struct Wgmma<n, type> {                                                                                            \
    __device__ static __forceinline__ void Add(float* c, uint64_t a, uint64_t b) {                                   \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." name "." name " {" registers "}, " a_place      \
                   ", " b_place ", 1, 1, 1, 0, 0;"                                                                   \
                   : __VA_ARGS__                                                                                     \
                   : "l"(a), "l"(b));                                                                                \
    }                                                                                                                \
    __device__ static __forceinline__ void Add(float* c, const uint32_t* left, uint32_t b_low) {                     \
      asm volatile("{ .reg .b64 right; mov.b64 right, {" right_low ", " right_high "}; "                             \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." name "." name " {" registers "}, {" left_places \
                   "}, right, 1, 1, 1, 0; }"                                                                         \
                   : __VA_ARGS__                                                                                     \
                   : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(b_low), "n"(kBoxDescriptorHigh));   \
    }                                                                                                                \
  };
#define RINGSIDE_R16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define RINGSIDE_R32 RINGSIDE_R16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define RINGSIDE_R64                                                                                  \
  RINGSIDE_R32                                                                                        \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55," \
  "%56,%57,%58,%59,%60,%61,%62,%63"
#define RINGSIDE_ADDS(type, name)                                                                                \
  RINGSIDE_ADD(8, type, name, "%0,%1,%2,%3", "%4", "%5", "%4,%5,%6,%7", "%8", "%9", RINGSIDE_C4(c, 0))           \
  RINGSIDE_ADD(16, type, name, "%0,%1,%2,%3,%4,%5,%6,%7", "%8", "%9", "%8,%9,%10,%11", "%12", "%13",             \
               RINGSIDE_C4(c, 0), RINGSIDE_C4(c, 4))                                                             \
  RINGSIDE_ADD(32, type, name, RINGSIDE_R16, "%16", "%17", "%16,%17,%18,%19", "%20", "%21", RINGSIDE_C16(c, 0))         \
  RINGSIDE_ADD(64, type, name, RINGSIDE_R32, "%32", "%33", "%32,%33,%34,%35", "%36", "%37", RINGSIDE_C16(c, 0),         \
               RINGSIDE_C16(c, 16))                                                                              \
  RINGSIDE_ADD(128, type, name, RINGSIDE_R64, "%64", "%65", "%64,%65,%66,%67", "%68", "%69", RINGSIDE_C16(c, 0),        \
               RINGSIDE_C16(c, 16), RINGSIDE_C16(c, 32), RINGSIDE_C16(c, 48))
RINGSIDE_ADDS(__nv_bfloat16, "bf16")
RINGSIDE_ADDS(__half, "f16")
/// c [64, N] += a [64, 32] b [N, 32]^T in E4M3, with the same thread layout; boxes have 128 inputs per row.
template <int kN>
struct WgmmaE4M3;
#define RINGSIDE_ADD_E4M3(n, registers, a_place, b_place, ...)                                                       \
  template <>                                                                                                        \
  struct WgmmaE4M3<n> {                                                                                              \
    __device__ static __forceinline__ void Add(float* c, uint64_t a, uint64_t b) {                                   \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3 {" registers "}, " a_place ", " b_place \
                   ", 1, 1, 1;"                                                                                      \
                   : __VA_ARGS__                                                                                     \
                   : "l"(a), "l"(b));                                                                                \
    }                                                                                                                \
  };
RINGSIDE_ADD_E4M3(64, RINGSIDE_R32, "%32", "%33", RINGSIDE_C16(c, 0), RINGSIDE_C16(c, 16))
RINGSIDE_ADD_E4M3(128, RINGSIDE_R64, "%64", "%65", RINGSIDE_C16(c, 0), RINGSIDE_C16(c, 16), RINGSIDE_C16(c, 32),
                  RINGSIDE_C16(c, 48))
#undef RINGSIDE_ADD_E4M3
#undef RINGSIDE_ADDS
#undef RINGSIDE_ADD
#undef RINGSIDE_R64
#undef RINGSIDE_R32
#undef RINGSIDE_R16
#undef RINGSIDE_C16
#undef RINGSIDE_C4

}  // namespace ringside::cuda
