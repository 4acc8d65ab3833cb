// Converts rows of x to integers for the streaming kernel of block-quantized weights (block_quant_gemv.cuh) with fewer
// than 8 bits. Included by it only.
#pragma once

#include "kernels/cuda/linear/gemv_quantized/k_tile_inputs.cuh"

namespace ringside::cuda {

/// Bytes of a group of 32 inputs: first the high bytes in the order of the right operand of byte MMAs, 16 inputs after
/// the other 16; then the low bytes.
constexpr int kInputGroupBytes = 64, kHighToLow = 32;

/// Zeros in shared memory, read in place of a K tile's inputs together with those of other rows. Rows start at
/// multiples of 128 bytes and the zeros do not, so no load has bank conflicts between the two.
struct alignas(128) ZeroInputs {
  static constexpr int kBank = 7;  // in units of 16 bytes
  static constexpr int kSixteens = kKTileChunks * kTileGroups * kInputGroupBytes / static_cast<int>(sizeof(uint4));
  uint4 room[kBank + kSixteens];
  __device__ __forceinline__ uint4* sixteens() { return room + kBank; }
};
static_assert(sizeof(ZeroInputs) == kZeroInputsBytes);

/// Rows of x in shared memory as 16-bit integers. Each group of 32 has a unit, a power of two derived from its largest
/// magnitude. The rounding error is 2^-15 of the largest, less than the precision of x's own type.
template <int kBits>
struct IntegerRows {
  unsigned char* bytes;  // kInputGroupBytes per group
  float* sums;           // of each kSumInputs inputs; for types without offsets already times -kMiddle
  float* units;
  int row_bytes, groups;  // distance between rows; units per row

  __device__ __forceinline__ IntegerRows(int rows, int x_stride, void* x, float* after_x)
      : bytes(static_cast<unsigned char*>(x)),
        sums(after_x),
        units(after_x + rows * IntegerRowSums<kBits>(x_stride)),
        row_bytes(x_stride * 2),
        groups(IntegerRowUnits<kBits>(x_stride)) {}
  __device__ __forceinline__ int row_sums() const { return groups * (32 / kSumInputs<kBits>); }
};

/// The start of a row of x.
template <class T>
__device__ __forceinline__ const T* InputRow(const GemmParams& a, int row) {
  return static_cast<const T*>(a.x) + row * a.x_stride;
}

/// Converts rows to integers in shared memory. Rows come from a layer's arguments, or from any type with k inputs per
/// row and an InputRow overload. The whole block takes part; an item is a unit of 16 inputs, half a group. The units of
/// all rows form one sequence, which the threads process in a strided loop.
template <class T, int kBits, int kRows, class From = GemmParams>
class IntegerInputs {
 public:
  __device__ __forceinline__ IntegerInputs(const From& a, const IntegerRows<kBits>& to)
      : a_(a), to_(to), row_units_((a.k + kKTileInputs - 1) / kKTileInputs * (kKTileInputs / kUnit)) {}

  /// Prefetches the weights of the preceding norm for the thread's first unit; constant during a step, so it need not
  /// wait for the preceding kernel.
  __device__ __forceinline__ void LoadNormWeights() {
    const Place own = At(First());
    if (own.there) LoadFloats(a_.norm_weight + own.unit * kUnit, weight_);
  }
  /// Converts x itself, with two further units in flight.
  __device__ __forceinline__ void Load() const {
    Pairs next = LoadPairs(First()), after_next = LoadPairs(First() + kBlockThreads);
#pragma unroll 1
    for (int n = First(); WarpHas(n); n += kBlockThreads) {
      const Pairs own = next;
      next = after_next, after_next = LoadPairs(n + 2 * kBlockThreads);
      Convert(n, own);
    }
    __syncthreads();
  }
  /// Converts the norm of x (RMSNorm, Zhang and Sennrich 2019, or LayerNorm, Ba et al. 2016). Block 0 also stores the
  /// normed rows, as a separate norm kernel would. `shared` holds kRows floats per warp. Unless rows are a multiple of
  /// 512 inputs, the number of rows may affect the last bits of a row.
  __device__ __forceinline__ void LoadNormed(float* shared) const {
    float own[kHeld][kUnit];
#pragma unroll
    for (int h = 0; h < kHeld; ++h) LoadNormedFrom(At(First() + h * kBlockThreads), own[h]);
    float means[kRows] = {}, factors[kRows] = {};
    if (a_.layer_norm) {
      AddUp(
          own, [](int, float x) { return x; }, means, shared);
#pragma unroll
      for (float& mean : means) mean /= static_cast<float>(a_.k);
    }
    AddUp(
        own, [&](int row, float x) { return (x - OfRow(means, row)) * (x - OfRow(means, row)); }, factors, shared);
#pragma unroll
    for (float& factor : factors) factor = rsqrtf(factor / static_cast<float>(a_.k) + a_.norm_eps);
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const int n = First() + h * kBlockThreads;
      if (WarpHas(n)) Convert(n, Normed(At(n), own[h], means, factors));
    }
#pragma unroll 1
    for (int n = First() + kHeld * kBlockThreads; WarpHas(n); n += kBlockThreads) {
      float x[kUnit];
      LoadNormedFrom(At(n), x);
      Convert(n, Normed(At(n), x, means, factors));
    }
    __syncthreads();
  }

 private:
  static constexpr int kUnit = 16;                  // inputs
  static constexpr int kHeld = kRows == 1 ? 1 : 2;  // a thread's first units, kept in registers; usually all of them
  struct Pairs {
    uint32_t of[kUnit / 2];
  };
  /// Position of a unit; `there` is false for padding past a row's end.
  struct Place {
    int row, unit;
    bool there;
  };
  static __device__ __forceinline__ int First() { return static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ int rows() const { return kRows <= 2 ? kRows : a_.rows; }
  /// Whether the first lane of the warp has a unit at this iteration.
  __device__ __forceinline__ bool WarpHas(int n) const { return n - First() % 32 < rows() * row_units_; }
  __device__ __forceinline__ Place At(int n) const {
    int row = 0;
#pragma unroll
    for (int r = 1; r < kRows; ++r) row += n >= r * row_units_ ? 1 : 0;
    const int unit = n - row * row_units_;
    return {row, unit, row < rows() && unit * kUnit < a_.k};
  }
  static __device__ __forceinline__ float OfRow(const float (&values)[kRows], int row) {
    float out = values[0];
#pragma unroll
    for (int r = 1; r < kRows; ++r) out = row == r ? values[r] : out;
    return out;
  }

  __device__ __forceinline__ Pairs LoadPairs(int n) const {
    const Place place = At(n);
    if (!place.there) return {};
    const auto* from = reinterpret_cast<const uint4*>(InputRow<T>(a_, place.row) + place.unit * kUnit);
    const uint4 low = from[0], high = from[1];
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  }
  static __device__ __forceinline__ void LoadFloats(const float* from, float (&to)[kUnit]) {
    if (AllowsVectorAccess(from)) {
#pragma unroll
      for (int i = 0; i < kUnit; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(from + i);
        to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kUnit; ++i) to[i] = from[i];
    }
  }
  __device__ __forceinline__ void LoadNormedFrom(const Place& place, float (&to)[kUnit]) const {
    if (place.there) LoadFloats(a_.normed_from + place.row * a_.normed_from_stride + place.unit * kUnit, to);
  }
  /// Block-wide sums of term(row, x) per row, returned to all threads. `own` holds the thread's first units.
  template <class Term>
  __device__ __forceinline__ void AddUp(const float (&own)[kHeld][kUnit], const Term& term, float (&sums)[kRows],
                                        float* shared) const {
    const auto add = [&](const Place& place, const float(&x)[kUnit]) {
      if (!place.there) return;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kUnit; ++i) sum += term(place.row, x[i]);
#pragma unroll
      for (int r = 0; r < kRows; ++r) sums[r] += place.row == r ? sum : 0;
    };
#pragma unroll
    for (int h = 0; h < kHeld; ++h) add(At(First() + h * kBlockThreads), own[h]);
#pragma unroll 1
    for (int n = First() + kHeld * kBlockThreads; WarpHas(n); n += kBlockThreads) {
      float x[kUnit];
      LoadNormedFrom(At(n), x);
      add(At(n), x);
    }
    BlockSums(sums, shared);
  }
  /// A unit's normed inputs; block 0 also stores them.
  __device__ __forceinline__ Pairs Normed(const Place& place, const float (&x)[kUnit], const float (&means)[kRows],
                                          const float (&factors)[kRows]) const {
    if (!place.there) return {};
    float weight[kUnit], bias[kUnit] = {};
#pragma unroll
    for (int i = 0; i < kUnit; ++i) weight[i] = weight_[i];
    if (place.unit != At(First()).unit) LoadFloats(a_.norm_weight + place.unit * kUnit, weight);
    if (a_.layer_norm && a_.norm_bias != nullptr) LoadFloats(a_.norm_bias + place.unit * kUnit, bias);
    const float mean = OfRow(means, place.row), factor = OfRow(factors, place.row);
    Pairs out;
#pragma unroll
    for (int i = 0; i < kUnit; i += 2) {
      out.of[i / 2] = Pack(fmaf((x[i] - mean) * factor, weight[i], bias[i]),
                           fmaf((x[i + 1] - mean) * factor, weight[i + 1], bias[i + 1]), T());
    }
    if (blockIdx.x == 0) {
      auto* to = reinterpret_cast<uint4*>(static_cast<T*>(a_.x) + place.row * a_.x_stride + place.unit * kUnit);
      to[0] = {out.of[0], out.of[1], out.of[2], out.of[3]}, to[1] = {out.of[4], out.of[5], out.of[6], out.of[7]};
    }
    return out;
  }

  /// Converts pairs of T to integers, two of 16 bits per word. The thread has inputs 16 h ... of a group; word 4 h + j
  /// receives the bytes of inputs 2 j, 8 + 2 j and the input after each.
  __device__ __forceinline__ void Convert(int n, const Pairs& own) const {
    uint32_t largest = 0;
#pragma unroll
    for (const uint32_t pair : own.of) {
      const float2 two = LaneTile<kBits>::Floats(pair, T());
      largest = max(largest, max(__float_as_uint(two.x) & 0x7fffffffu, __float_as_uint(two.y) & 0x7fffffffu));
    }
    largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    // The largest integer is at least 2^14; groups below 2^-111 are flushed to zero.
    const uint32_t exponent = max(largest >> 23, 15u);
    const float unit = exponent == 255 ? __uint_as_float(0x7fc00000u) : __uint_as_float((exponent - 14) << 23),
                by = __uint_as_float((268 - exponent) << 23);
    constexpr float kOnTop = 12582912;  // 1.5 * 2^23: adding it leaves the integer in the low 16 bits of a float32
    uint32_t integers[kUnit / 2];
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kUnit / 2; ++i) {
      const float2 two = LaneTile<kBits>::Floats(own.of[i], T());
      integers[i] =
          __byte_perm(__float_as_uint(fmaf(two.x, by, kOnTop)), __float_as_uint(fmaf(two.y, by, kOnTop)), 0x5410);
      sum = __dp2a_lo(static_cast<int>(integers[i]), 0x0101, sum);
    }
    if constexpr (kSumInputs<kBits> == 32) sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    if (n >= rows() * row_units_) return;
    const auto [r, u, there] = At(n);
    auto* to = reinterpret_cast<uint4*>(to_.bytes + r * to_.row_bytes + u / 2 * kInputGroupBytes + u % 2 * kUnit);
    uint32_t high[4], low[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      high[j] = __byte_perm(integers[j], integers[4 + j], 0x7351);
      low[j] = __byte_perm(integers[j], integers[4 + j], 0x6240);
    }
    to[0] = {high[0], high[1], high[2], high[3]};
    to[kHighToLow / kUnit] = {low[0], low[1], low[2], low[3]};
    const float total = static_cast<float>(sum) * (TileOf<kBits>::kHasOffset ? unit : -TileOf<kBits>::kMiddle * unit);
    if (kSumInputs<kBits> == kUnit) {
      to_.sums[r * to_.row_sums() + u] = total;
    } else if (u % 2 == 0) {
      to_.sums[r * to_.row_sums() + u / 2] = total;
    }
    if (u % 2 == 0) to_.units[r * to_.groups + u / 2] = unit;
  }

  const From& a_;
  const IntegerRows<kBits>& to_;
  const int row_units_;  // even; includes the padding units of the last K tile
  float weight_[kUnit] = {};
};

}  // namespace ringside::cuda
