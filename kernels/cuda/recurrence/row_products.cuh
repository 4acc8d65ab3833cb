// WGMMA with tiles of chunk_tiles.cuh whose rows are the columns of the right operand (K-major), and copies of whole
// tiles. Only for sm_90a; included by .cu files.
#pragma once

#include "kernels/cuda/wgmma.cuh"

namespace ringside::cuda {

/// Shared-memory descriptor of 64 rows of a panel: rows of 128 bytes with the 128-byte swizzle, which begins at a
/// multiple of 1,024 bytes. 16 columns on are 32 bytes on.
__device__ __forceinline__ uint64_t RowDescriptor(uint32_t address) {
  constexpr uint64_t kNextRows = 1024;  // 8 rows on, in bytes
  return At(uint64_t{1} << 62 | (kNextRows >> 4) << 32 | uint64_t{1} << 16, address);
}

/// sums (+)= a b: a is 64 x 16, 16 rows per warp in the register layout of mma.m16n8k16; b is 16 x 64, a RowDescriptor.
/// Accumulators as Multiply's (wgmma.cuh). Asynchronous: REQUIRES WgmmaWait before the sums are read.
__device__ __forceinline__ void MultiplyByRows(float (&sums)[32], const uint32_t (&a)[4], uint64_t b, bool adds) {
  RINGSIDE_WGMMA(
      "{ .reg .pred adds; setp.ne.b32 adds, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
      "{%32,%33,%34,%35}, %36, adds, 1, 1, 0; }"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]),
        "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]),
        "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]),
        "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]),
        "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}

/// Copies consecutive bytes, a multiple of 16, to shared memory.
/// REQUIRES: one thread; the barrier expects the bytes (ArriveExpectTx).
__device__ __forceinline__ void CopyBulk(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  RINGSIDE_WGMMA("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

}  // namespace ringside::cuda
