// Rows of x for the streaming kernel of weights in tiles (stream_grouped.cuh), for those of up to 6 bits: as integers.
// Included by it only.
#pragma once

#include "kernels/cuda/linear/stream/portion_inputs.cuh"

namespace ringside::cuda {

/// Whether weights are multiplied as integers: bytes become numbers of 16 bits.
template <int kBits>
constexpr bool kTakesIntegers = kBits != 8;
/// Inputs that are summed for what is added to all weights of a scale: as many as have one.
template <int kBits>
constexpr int kSumInputs = kBits == 6 ? 16 : 32;
/// Bytes of a group of 32 inputs: the high bytes of all as the right operand of products of bytes wants them, 16 inputs
/// behind the other 16, then their low bytes.
constexpr int kInputGroupBytes = 64, kHighToLow = 32;

/// Zeros in shared memory that are read in the place of a portion's inputs, together with those of other rows. Where
/// these begin at a multiple of 128, no load finds both in the same banks.
struct alignas(128) ZeroInputs {
  static constexpr int kBank = 7;  // of sixteen bytes each
  static constexpr int kSixteens = kPortionChunks * kTileGroups * kInputGroupBytes / static_cast<int>(sizeof(uint4));
  uint4 room[kBank + kSixteens];
  __device__ __forceinline__ uint4* sixteens() { return room + kBank; }
};

/// Rows of x in shared memory: integers of 16 bits, each 32 of which have a unit of their own, a power of two by their
/// largest. What that rounds is 2^-15 of the largest, less than the type of x has rounded of it.
template <int kBits>
struct IntegerRows {
  unsigned char* bytes;  // kInputGroupBytes a group
  float* sums;           // of each kSumInputs; of 6 bits times -32, which integers of these are more
  float* units;
  int row_bytes, groups;  // from a row to the next; units of a row

  __device__ __forceinline__ IntegerRows(int rows, int x_stride, void* x, float* behind)
      : bytes(static_cast<unsigned char*>(x)),
        sums(behind),
        units(behind + rows * SumsOf(x_stride)),
        row_bytes(x_stride * 2),
        groups(UnitsOf(x_stride)) {}
  __device__ __forceinline__ int row_sums() const { return groups * (32 / kSumInputs<kBits>); }
  /// Of a row, where rows are so many elements apart.
  static RINGSIDE_HOST_DEVICE constexpr int UnitsOf(int x_stride) { return kTakesIntegers<kBits> ? x_stride / 32 : 0; }
  static RINGSIDE_HOST_DEVICE constexpr int SumsOf(int x_stride) {
    return UnitsOf(x_stride) * (32 / kSumInputs<kBits>);
  }
};

/// Brings them there. By the whole block, 16 inputs a thread at a time, half a group.
template <class T, int kBits, int kRows>
class IntegerInputs {
 public:
  __device__ __forceinline__ IntegerInputs(const Skinny& a, const IntegerRows<kBits>& to)
      : a_(a), to_(to), units_((a.k + kPortionInputs - 1) / kPortionInputs * (kPortionInputs / kUnit)) {}

  /// The weights of the norm in front for the thread's first inputs: no part of a step, which need not wait for it.
  __device__ __forceinline__ void LoadNormWeights() {
    if (First() * kUnit < a_.k) LoadFloats(a_.norm_weight + First() * kUnit, weight_);
  }
  /// Of x itself.
  __device__ __forceinline__ void Load() const {
    for (int r = 0; r < rows(); ++r) {
#pragma unroll 1
      for (int u = First(); WarpHas(u); u += kBlockThreads) {
        uint32_t pairs[kUnit / 2] = {};
        if (u * kUnit < a_.k) {
          const auto* from = reinterpret_cast<const uint4*>(static_cast<const T*>(a_.x) + r * a_.x_stride + u * kUnit);
          const uint4 low = from[0], high = from[1];
          pairs[0] = low.x, pairs[1] = low.y, pairs[2] = low.z, pairs[3] = low.w;
          pairs[4] = high.x, pairs[5] = high.y, pairs[6] = high.z, pairs[7] = high.w;
        }
        Take(r, u, pairs);
      }
    }
    __syncthreads();
  }
  /// Of the norm in front (RMS, Zhang and Sennrich 2019, or layer norm, Ba et al. 2016); block 0 also stores them, as
  /// the norm by itself would. `shared` holds kRows floats a warp.
  __device__ __forceinline__ void LoadNormed(float* shared) const {
    float means[kRows] = {}, factors[kRows], own[kUnit] = {};
    if (a_.layer_norm) {
      for (int r = 0; r < rows(); ++r) {
        ForOwn(r, own, [&](float x) { means[r] += x; });
      }
      BlockSums(means, shared);
      for (float& mean : means) mean /= static_cast<float>(a_.k);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      factors[r] = 0;
      if (r < rows()) ForOwn(r, own, [&](float x) { factors[r] = fmaf(x - means[r], x - means[r], factors[r]); });
    }
    BlockSums(factors, shared);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows()) break;
      const float factor = rsqrtf(factors[r] / static_cast<float>(a_.k) + a_.norm_eps);
#pragma unroll 1
      for (int u = First(); WarpHas(u); u += kBlockThreads) {
        uint32_t pairs[kUnit / 2] = {};
        if (u * kUnit < a_.k) Norm(r, u, own, means[r], factor, pairs);
        Take(r, u, pairs);
      }
    }
    __syncthreads();
  }

 private:
  static constexpr int kUnit = 16;  // inputs
  static __device__ __forceinline__ int First() { return static_cast<int>(threadIdx.x); }
  /// Whether there is one of this number for the first lane of a warp.
  __device__ __forceinline__ bool WarpHas(int u) const { return u - static_cast<int>(threadIdx.x) % 32 < units_; }
  __device__ __forceinline__ int rows() const { return kRows <= 2 ? kRows : a_.rows; }

  static __device__ __forceinline__ void LoadFloats(const float* from, float (&to)[kUnit]) {
    if (AllowsVectors(from)) {
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
  /// Calls body with each of the thread's values of row r of what is normed; `own` is left with the first of the last
  /// row.
  template <class Body>
  __device__ __forceinline__ void ForOwn(int r, float (&own)[kUnit], const Body& body) const {
    const float* row = a_.normed_from + r * a_.normed_from_stride;
    if (First() * kUnit < a_.k) {
      LoadFloats(row + First() * kUnit, own);
#pragma unroll
      for (const float x : own) body(x);
    }
#pragma unroll 1
    for (int u = First() + kBlockThreads; u * kUnit < a_.k; u += kBlockThreads) {
      float more[kUnit];
      LoadFloats(row + u * kUnit, more);
#pragma unroll
      for (const float x : more) body(x);
    }
  }
  /// A unit's normed inputs; the first of a row that is alone is there already.
  __device__ __forceinline__ void Norm(int r, int u, const float (&own)[kUnit], float mean, float factor,
                                       uint32_t (&pairs)[kUnit / 2]) const {
    float x[kUnit], weight[kUnit], bias[kUnit] = {};
    const bool is_first = u == First();
#pragma unroll
    for (int i = 0; i < kUnit; ++i) x[i] = own[i], weight[i] = weight_[i];
    if (kRows > 1 || !is_first) LoadFloats(a_.normed_from + r * a_.normed_from_stride + u * kUnit, x);
    if (!is_first) LoadFloats(a_.norm_weight + u * kUnit, weight);
    if (a_.layer_norm && a_.norm_bias != nullptr) LoadFloats(a_.norm_bias + u * kUnit, bias);
#pragma unroll
    for (int i = 0; i < kUnit; i += 2) {
      pairs[i / 2] = Pack(fmaf((x[i] - mean) * factor, weight[i], bias[i]),
                          fmaf((x[i + 1] - mean) * factor, weight[i + 1], bias[i + 1]), T());
    }
    if (blockIdx.x != 0) return;
    auto* to = reinterpret_cast<uint4*>(static_cast<T*>(a_.x) + r * a_.x_stride + u * kUnit);
    to[0] = {pairs[0], pairs[1], pairs[2], pairs[3]}, to[1] = {pairs[4], pairs[5], pairs[6], pairs[7]};
  }

  /// Pairs of T to integers: those of two inputs are 16 bits each of a word. A thread has the inputs 16 h ... of a
  /// group; of inputs 2 j, 8 + 2 j and those behind these two, word 4 h + j has the bytes.
  __device__ __forceinline__ void Take(int r, int u, const uint32_t (&pairs)[kUnit / 2]) const {
    uint32_t largest = 0;
#pragma unroll
    for (const uint32_t pair : pairs) {
      const float2 two = LaneTile<kBits>::Floats(pair, T());
      largest = max(largest, max(__float_as_uint(two.x) & 0x7fffffffu, __float_as_uint(two.y) & 0x7fffffffu));
    }
    largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    // The largest integer is 2^14 and more; what is below 2^-111 is as good as zero.
    const uint32_t exponent = max(largest >> 23, 15u);
    const float unit = exponent == 255 ? __uint_as_float(0x7fc00000u) : __uint_as_float((exponent - 14) << 23),
                by = __uint_as_float((268 - exponent) << 23);
    constexpr float kOnTop = 12582912;  // 1.5 2^23: the last 16 bits of a float32 beyond it are an integer's
    uint32_t integers[kUnit / 2];
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kUnit / 2; ++i) {
      const float2 two = LaneTile<kBits>::Floats(pairs[i], T());
      integers[i] =
          __byte_perm(__float_as_uint(fmaf(two.x, by, kOnTop)), __float_as_uint(fmaf(two.y, by, kOnTop)), 0x5410);
      sum = __dp2a_lo(static_cast<int>(integers[i]), 0x0101, sum);
    }
    if constexpr (kSumInputs<kBits> == 32) sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    if (u >= units_) return;
    auto* to = reinterpret_cast<uint4*>(to_.bytes + r * to_.row_bytes + u / 2 * kInputGroupBytes + u % 2 * kUnit);
    uint32_t high[4], low[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      high[j] = __byte_perm(integers[j], integers[4 + j], 0x7351);
      low[j] = __byte_perm(integers[j], integers[4 + j], 0x6240);
    }
    to[0] = {high[0], high[1], high[2], high[3]};
    to[kHighToLow / kUnit] = {low[0], low[1], low[2], low[3]};
    const float total = static_cast<float>(sum) * (kBits == 6 ? -32 * unit : unit);
    if (kSumInputs<kBits> == kUnit) {
      to_.sums[r * to_.row_sums() + u] = total;
    } else if (u % 2 == 0) {
      to_.sums[r * to_.row_sums() + u / 2] = total;
    }
    if (u % 2 == 0) to_.units[r * to_.groups + u / 2] = unit;
  }

  const Skinny& a_;
  const IntegerRows<kBits>& to_;
  const int units_;  // of a row, those of a last portion that are not there included
  float weight_[kUnit] = {};
};

}  // namespace ringside::cuda
