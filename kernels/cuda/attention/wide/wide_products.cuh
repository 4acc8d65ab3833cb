// WGMMAs of attention_wide.cuh with a box of queries as left operand and keys stored dimension by dimension as right
// one. Only for sm_90a; included by .cu files.
#pragma once

#include "kernels/cuda/linear/tensor_boxes.cuh"

namespace ringside::cuda {

#define RINGSIDE_COLUMNS(element, name)                                                                              \
  __device__ __forceinline__ void MultiplyColumns(float(&c)[16], uint64_t a, uint64_t b, element) {                  \
    RINGSIDE_WGMMA("wgmma.mma_async.sync.aligned.m64n32k16.f32." name "." name                                       \
                   " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, 1, 1, 1, 0, 1;"              \
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), \
                     "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]),        \
                     "+f"(c[15])                                                                                     \
                   : "l"(a), "l"(b));                                                                                \
  }
/// c [64, 32] += a [64, 16] b [16, 32], a a BoxDescriptor, b a RightDescriptor. Asynchronous.
RINGSIDE_COLUMNS(__nv_bfloat16, "bf16")
RINGSIDE_COLUMNS(__half, "f16")
#undef RINGSIDE_COLUMNS

}  // namespace ringside::cuda
