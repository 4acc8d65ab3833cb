// Sixteen lanes of float32, the one vector type that every operation is written for. Each instruction set defines the
// same types and functions (lanes_avx512.h, lanes_avx2.h, lanes_neon.h, lanes_portable.h) with bit-identical results:
//
//   Fma(a, b, c)             a * b + c, rounded once; MinusFma: c - a * b, rounded once
//   Max(a, b), Min(a, b)     a > b ? a : b, a < b ? a : b: the second operand if either is NaN
//   Sum(a)                   lanes i and i + 8, then + 4, + 2, + 1: one fixed tree
//   KeepLanes(a, f, l, o)    a in lanes [f, l), o elsewhere
//   RoundToInt               to nearest, ties to even; out of range: INT32_MIN
//   PowerOfTwo(n)            2^n for n in [-126, 127]
//   LoadF16, StoreF16Partial to nearest, ties to even; LoadU8, LoadI8: 16 bytes to 16 floats
//   LookUp(q, t)             t[q] for each byte q < 16
//   DotPair(s, a, xa, b, xb) s + per lane the dot product of its 4 bytes of a and of b (each at most 63) with 4 int8
//   DotOne                   as DotPair for one group (bytes at most 127)
//   DotEightBits             as DotOne for weights stored with + 128. If kUnsignedEightBits the sum includes the + 128,
//                            and the caller starts from -128 * sum(x); otherwise it does not.
//
// Sizes: kWideRegisters if a register has 16 lanes; kMostRows is the number of rows whose integer sums are computed
// together: 16 where unpacking a block costs more than spilling sums to memory.
//
// All names are internal to the including file.
#pragma once

#include <cstdint>

#define LANES_INLINE inline __attribute__((always_inline))
#define LANES_LAMBDA __attribute__((always_inline))
#if defined(__clang__)
#define LANES_UNROLL _Pragma("unroll")
#else
#define LANES_UNROLL _Pragma("GCC unroll 16")
#endif
// ThreadSanitizer does not instrument the reads of dot products: weights never change after loading, and checking them
// takes 95 % of a server's time. Their writes are instrumented.
#ifdef __SANITIZE_THREAD__
#define LANES_PRODUCT __attribute__((no_sanitize("thread"), noinline))
#define LANES_RESULT __attribute__((noinline))
#else
#define LANES_PRODUCT
#define LANES_RESULT LANES_INLINE
#endif
