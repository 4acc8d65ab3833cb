// Rows of x for the streaming kernel of weights in tiles (stream_grouped.cuh), for those of fewer than 8 bits: as
// integers. Included by it only.
#pragma once

#include "kernels/cuda/linear/stream/portion_inputs.cuh"

namespace ringside::cuda {

/// Whether weights are multiplied as integers: bytes become numbers of 16 bits.
template <int kBits>
constexpr bool kTakesIntegers = kBits != 8;
/// Inputs that are summed for what is added to all weights of a scale: as many as have one.
template <int kBits>
constexpr int kSumInputs = 32 / TileOf<kBits>::kHalves;
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
  float* sums;           // of each kSumInputs; without offsets times what elements are less than integers
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
  /// Floats beside a row.
  static RINGSIDE_HOST_DEVICE constexpr int BesideRow(int x_stride) { return SumsOf(x_stride) + UnitsOf(x_stride); }
};

/// Where a row of x begins.
template <class T>
__device__ __forceinline__ const T* InputRow(const Skinny& a, int row) {
  return static_cast<const T*>(a.x) + row * a.x_stride;
}

/// Brings them there from a layer's arguments or others that have rows of k inputs (InputRow). By the whole block, 16
/// inputs a thread at a time, half a group: a unit. All rows' units are one sequence, of which every thread has each
/// kBlockThreads-th.
template <class T, int kBits, int kRows, class From = Skinny>
class IntegerInputs {
 public:
  __device__ __forceinline__ IntegerInputs(const From& a, const IntegerRows<kBits>& to)
      : a_(a), to_(to), row_units_((a.k + kPortionInputs - 1) / kPortionInputs * (kPortionInputs / kUnit)) {}

  /// The weights of the norm in front for the thread's first unit: no part of a step, which need not wait for it.
  __device__ __forceinline__ void LoadNormWeights() {
    const Place own = At(First());
    if (own.there) LoadFloats(a_.norm_weight + own.unit * kUnit, weight_);
  }
  /// Of x itself. Two units are on their way while one is taken.
  __device__ __forceinline__ void Load() const {
    Pairs next = LoadPairs(First()), behind = LoadPairs(First() + kBlockThreads);
#pragma unroll 1
    for (int n = First(); WarpHas(n); n += kBlockThreads) {
      const Pairs own = next;
      next = behind, behind = LoadPairs(n + 2 * kBlockThreads);
      Take(n, own);
    }
    __syncthreads();
  }
  /// Of the norm in front (RMS, Zhang and Sennrich 2019, or layer norm, Ba et al. 2016); block 0 also stores them, as
  /// the norm by itself would. `shared` holds kRows floats a warp. Where rows are no multiple of 512 inputs, a row's
  /// last bits may depend on how many there are.
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
      if (WarpHas(n)) Take(n, Normed(At(n), own[h], means, factors));
    }
#pragma unroll 1
    for (int n = First() + kHeld * kBlockThreads; WarpHas(n); n += kBlockThreads) {
      float x[kUnit];
      LoadNormedFrom(At(n), x);
      Take(n, Normed(At(n), x, means, factors));
    }
    __syncthreads();
  }

 private:
  static constexpr int kUnit = 16;                  // inputs
  static constexpr int kHeld = kRows == 1 ? 1 : 2;  // a thread's first units of what is normed: mostly all of them
  struct Pairs {
    uint32_t of[kUnit / 2];
  };
  /// Where a unit lies, and whether it has inputs: behind a row's last ones there are zeros.
  struct Place {
    int row, unit;
    bool there;
  };
  static __device__ __forceinline__ int First() { return static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ int rows() const { return kRows <= 2 ? kRows : a_.rows; }
  /// Whether the first lane of the thread's warp has a unit where the thread has its n-th.
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
  __device__ __forceinline__ void LoadNormedFrom(const Place& place, float (&to)[kUnit]) const {
    if (place.there) LoadFloats(a_.normed_from + place.row * a_.normed_from_stride + place.unit * kUnit, to);
  }
  /// The sums over each row of term(row, x) of what is normed, known to all threads; the thread's first units are
  /// there.
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
  /// A unit's normed inputs; block 0 stores them.
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

  /// Pairs of T to integers: those of two inputs are 16 bits each of a word. A thread has the inputs 16 h ... of a
  /// group; of inputs 2 j, 8 + 2 j and those behind these two, word 4 h + j has the bytes.
  __device__ __forceinline__ void Take(int n, const Pairs& own) const {
    uint32_t largest = 0;
#pragma unroll
    for (const uint32_t pair : own.of) {
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
  const int row_units_;  // an even number, those of a last portion that have no inputs included
  float weight_[kUnit] = {};
};

}  // namespace ringside::cuda
