// PTX wrappers of Hopper's asynchronous instructions: warp group GEMMs (WGMMA) with the right operand in shared memory,
// and mbarriers, which copies can arrive at. Only for sm_90a; included by .cu files.
#pragma once

#include <cuda.h>

#include "kernels/cuda/device.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define RINGSIDE_WGMMA(...) asm volatile(__VA_ARGS__)
#else
#define RINGSIDE_WGMMA(...)
#endif

namespace ringside::cuda {

// ---- mbarriers; each has a phase parity, 0 or 1, and completes when all expected arrivals have come
__device__ __forceinline__ void InitBarrier(uint32_t barrier, int arrivals) {
  RINGSIDE_WGMMA("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void ArriveAt(uint32_t barrier) {
  RINGSIDE_WGMMA("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// One arrival per warp, ordered after the work of all its lanes.
__device__ __forceinline__ void ArriveAsWarp(uint32_t barrier, int lane) {
  __syncwarp();
  if (lane == 0) ArriveAt(barrier);
}
/// Arrives, and holds the phase open until `bytes` more bytes have been copied.
__device__ __forceinline__ void ArriveExpectTx(uint32_t barrier, int bytes) {
  RINGSIDE_WGMMA("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Holds the phase open until all copies issued by this thread (CopyAsync) have landed. The thread must still arrive.
__device__ __forceinline__ void ArriveOnCopies(uint32_t barrier) {
  RINGSIDE_WGMMA("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
/// Makes initialized barriers visible to the async proxy.
__device__ __forceinline__ void FenceBarriers() { RINGSIDE_WGMMA("fence.mbarrier_init.release.cluster;" ::: "memory"); }
/// Blocks until the phase with this parity is complete; the phase before the first counts as complete.
__device__ __forceinline__ void WaitAt(uint32_t barrier, int phase) {
  RINGSIDE_WGMMA(
      "{ .reg .pred over; wait: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1; @!over bra wait; }" ::"r"(
          barrier),
      "r"(phase)
      : "memory");
}
/// True in exactly one lane of the warp.
/// REQUIRES: all lanes call it.
__device__ __forceinline__ bool ElectOne() {
  uint32_t elected = 0;
  RINGSIDE_WGMMA("{ .reg .pred one; elect.sync _|one, 0xffffffff; selp.u32 %0, 1, 0, one; }" : "=r"(elected));
  return elected != 0;
}
/// Barrier among the first kThreads threads of a block, the consumers; producer warps do not take part.
template <int kThreads>
__device__ __forceinline__ void SyncConsumers() {
  RINGSIDE_WGMMA("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}
/// Makes shared-memory writes visible to WGMMA.
/// REQUIRES: a barrier has ordered the writes before this call.
__device__ __forceinline__ void FenceProxyAsync() { RINGSIDE_WGMMA("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Prefetches a TMA descriptor.
__device__ __forceinline__ void PrefetchMap(const CUtensorMap& map) {
  RINGSIDE_WGMMA("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// ---- register reallocation (setmaxnreg) per thread of a warp group; a multiple of 8
template <int kCount>
__device__ __forceinline__ void IncreaseRegisters() {
  RINGSIDE_WGMMA("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void DecreaseRegisters() {
  RINGSIDE_WGMMA("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// ---- WGMMA
/// Orders earlier register accesses before the WGMMA instructions that follow.
__device__ __forceinline__ void WgmmaFence() { RINGSIDE_WGMMA("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Commits the WGMMA instructions issued since the last call as one group.
__device__ __forceinline__ void WgmmaCommit() { RINGSIDE_WGMMA("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Compiler barrier on these registers: earlier writes are kept before it, later accesses after it. It constrains the
/// compiler to PTX only; ptxas does not see it.
template <int N>
__device__ __forceinline__ void Hold(float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
template <int N>
__device__ __forceinline__ void Hold(uint32_t (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(x[i])::"memory");
}
/// Waits until at most kLeft groups are in flight.
template <int kLeft>
__device__ __forceinline__ void WgmmaWait() {
  RINGSIDE_WGMMA("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
/// As above; `sums` are the accumulators of a group that is then complete.
template <int kLeft, int N>
__device__ __forceinline__ void WgmmaWait(float (&sums)[N]) {
  WgmmaWait<kLeft>();
  Hold(sums);
}

/// Shared-memory descriptor of a right operand with 16 rows (K). A row's elements are contiguous in chunks of kBytes;
/// the 16-byte units of a chunk are swizzled by the row: unit ^ row / (128 / kBytes) % (kBytes / 16). `next_piece` and
/// `next_rows` (8 rows on) are byte strides.
template <int kBytes>
__device__ __forceinline__ uint64_t RightDescriptor(int next_piece, int next_rows) {
  static_assert(kBytes == 32 || kBytes == 128);
  const uint64_t mode = kBytes == 32 ? 3 : 1;
  return mode << 62 | static_cast<uint64_t>(next_rows >> 4) << 32 | static_cast<uint64_t>(next_piece >> 4) << 16;
}
/// The descriptor at a shared-memory address; the upper bits of the address are the block's cluster rank and are masked
/// off.
__device__ __forceinline__ uint64_t At(uint64_t operand, uint32_t address) {
  return operand | (address & 0x3ffff) >> 4;
}
/// Advances a descriptor by `bytes`, in one addition.
__device__ __forceinline__ uint64_t AdvanceDescriptor(uint64_t operand, int bytes) {
  return (operand & 0xffffffff00000000) | static_cast<uint32_t>(static_cast<uint32_t>(operand) + (bytes >> 4));
}

// Operands of the instruction in assembly: accumulators, the left operand's four registers, the right descriptor,
// whether to accumulate.
#define RINGSIDE_SUMS8(c, i)                                                                                  \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), \
      "+f"(c[i + 7])
#define RINGSIDE_SUMS32(c, i) \
  RINGSIDE_SUMS8(c, i), RINGSIDE_SUMS8(c, i + 8), RINGSIDE_SUMS8(c, i + 16), RINGSIDE_SUMS8(c, i + 24)
#define RINGSIDE_NAMES8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define RINGSIDE_NAMES32 \
  RINGSIDE_NAMES8 ",%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define RINGSIDE_NAMES64                                              \
  RINGSIDE_NAMES32                                                    \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define RINGSIDE_NAMES96                                              \
  RINGSIDE_NAMES64                                                    \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79," \
  "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define RINGSIDE_PRODUCT(element, name, n, names, left, right, add, ...)                                      \
  __device__ __forceinline__ void Multiply(float(&sums)[n / 2], const uint32_t(&a)[4], uint64_t b, bool adds, \
                                           element) {                                                         \
    RINGSIDE_WGMMA("{ .reg .pred adds; setp.ne.b32 adds, " add ", 0; wgmma.mma_async.sync.aligned.m64n" #n    \
                   "k16.f32." name "." name " {" names "}, {" left "}, " right ", adds, 1, 1, 1; }"           \
                   : __VA_ARGS__                                                                              \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));        \
  }
#define RINGSIDE_PRODUCTS(element, name)                                                                              \
  RINGSIDE_PRODUCT(element, name, 16, RINGSIDE_NAMES8, "%8,%9,%10,%11", "%12", "%13", RINGSIDE_SUMS8(sums, 0))        \
  RINGSIDE_PRODUCT(element, name, 64, RINGSIDE_NAMES32, "%32,%33,%34,%35", "%36", "%37", RINGSIDE_SUMS32(sums, 0))    \
  RINGSIDE_PRODUCT(element, name, 128, RINGSIDE_NAMES64, "%64,%65,%66,%67", "%68", "%69", RINGSIDE_SUMS32(sums, 0),   \
                   RINGSIDE_SUMS32(sums, 32))                                                                         \
  RINGSIDE_PRODUCT(element, name, 192, RINGSIDE_NAMES96, "%96,%97,%98,%99", "%100", "%101", RINGSIDE_SUMS32(sums, 0), \
                   RINGSIDE_SUMS32(sums, 32), RINGSIDE_SUMS32(sums, 64))

/// sums (+)= a b: a is 64 x 16, 16 rows per warp in the register layout of mma.m16n8k16; b is 16 x N, a
/// RightDescriptor. Accumulators of columns 8 i ... are sums[4 i ... 4 i + 3], as in that instruction. Asynchronous:
/// REQUIRES WgmmaWait before the sums are read.
RINGSIDE_PRODUCTS(__nv_bfloat16, "bf16")
RINGSIDE_PRODUCTS(__half, "f16")

#undef RINGSIDE_PRODUCTS
#undef RINGSIDE_PRODUCT
#undef RINGSIDE_NAMES96
#undef RINGSIDE_NAMES64
#undef RINGSIDE_NAMES32
#undef RINGSIDE_NAMES8
#undef RINGSIDE_SUMS32
#undef RINGSIDE_SUMS8

}  // namespace ringside::cuda
