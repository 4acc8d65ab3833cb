// The definition of every operation, as naive loops in double, and random inputs in every file format. Shares no code
// with the implementation under test: the formats are decoded value by value from their published layouts. Exception:
// GGUF types without arithmetic of their own (codebooks, ternary, NVFP4) are decoded by ReadFileRow, whose values
// block_values_test.cpp compares with the reference library's.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace ringside::testing {

inline const DType kAllTypes[] = {DType::kF32,   DType::kF16,     DType::kBF16,        DType::kQ8_0,     DType::kQ4_0,
                                  DType::kQ4_1,  DType::kQ5_0,    DType::kQ5_1,        DType::kQ4_K,     DType::kQ5_K,
                                  DType::kQ6_K,  DType::kQ2_K,    DType::kQ3_K,        DType::kIQ4_NL,   DType::kIQ4_XS,
                                  DType::kMXFP4, DType::kQ4_Z,    DType::kScaledE4M3,  DType::kIQ2_XXS,  DType::kIQ2_XS,
                                  DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S,       DType::kIQ1_S,    DType::kIQ1_M,
                                  DType::kTQ1_0, DType::kTQ2_0,   DType::kScaledNVFP4, DType::kScaledI8, DType::kNVFP4};

/// A weight in file format and its dequantized values.
struct RandomWeight {
  DType dtype;
  int64_t rows, cols;
  std::vector<std::byte> bytes;
  std::vector<double> values;  // [rows, cols]

  HostTensor host() const { return {dtype, rows, cols, bytes}; }
};
/// Every bit of the integers is random; scales are such that values are mostly below 1.
RandomWeight MakeRandomWeight(DType dtype, int64_t rows, int64_t cols, uint32_t seed);

/// Whether byte i of a block of a quantized type belongs to a scale.
bool IsScaleByte(DType dtype, size_t i);

/// The sum of x w for an output, and that of magnitudes; x has w.cols columns.
struct Product {
  double sum = 0, size = 0;
};
Product Multiply(const std::vector<float>& x, const RandomWeight& w, int64_t row, int64_t output);

/// float16 (value of its bits).
double HalfValue(uint16_t bits);

std::vector<float> RandomFloats(size_t n, uint32_t seed, float scale = 1.0f);

/// The layer norm of every row of x, or without `bias` its RMS norm, in double; epsilon is 1e-5.
std::vector<double> Normed(const std::vector<float>& x, int64_t rows, const std::vector<float>& weight,
                           const std::vector<float>* bias);
inline Tensor AsTensor(std::vector<float>& v, int64_t rows, int64_t cols) {
  return {DType::kF32, v.data(), rows, cols, cols};
}

/// Those of this machine's CPU.
inline std::vector<std::string> InstructionSets() { return {CpuInstructionSets().begin(), CpuInstructionSets().end()}; }
/// The backend of `set` on `threads` threads; the test fails if there is none.
std::unique_ptr<Backend> MakeBackend(std::string_view set, int threads);

/// Dense attention of one sequence: every key of every position is kept and rotated as specified in backend.h.
struct AttentionCase {
  int64_t heads = 3, kv_heads = 1, head_dim = 16, rotary = 16;
  RopePairs pairs = RopePairs::kAdjacent;
  DType kv_dtype = DType::kF16;
  int64_t pinned = 0, memory = 40;  // S and W: row t attends to ring positions [max(S, t - W + 1), t]
  int64_t slack = 0;                // > 0: first_live advances to a multiple of `slack`, as in turn eviction
  int64_t length = 100;
  int64_t ring_rows = 0;  // 0: the minimum for `chunk`
  uint32_t seed = 1;
  float soft_cap = 0;                // ScoreTraits
  std::vector<float> slopes, sinks;  // [heads], or none
  int64_t window = 0;
  bool chunked = false;
  std::vector<float> query_weights;  // [head_dim], or none: AttentionArgs
  std::vector<float> query_scales;   // [length], or none
  int64_t latent_dim = 0;            // KvShape::latent_dim; the rotated dimensions are the last ones
  std::vector<std::pair<int64_t, int64_t>> mutual = {};  // [begin, end): rows that see each other; ascending

  int64_t width() const { return (heads + (latent_dim > 0 ? 1 : 2) * kv_heads) * head_dim; }
  int64_t value_dim() const { return latent_dim > 0 ? latent_dim : head_dim; }
  int64_t first_rotary() const { return latent_dim > 0 ? head_dim - rotary : 0; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
  /// Borrowed; the memory is readable by a host backend.
  ScoreTraits scores() const {
    return {.scale = scale(),
            .soft_cap = soft_cap,
            .slopes = slopes.empty() ? nullptr : slopes.data(),
            .sinks = sinks.empty() ? nullptr : sinks.data(),
            .window = window,
            .chunked = chunked};
  }
  /// AttentionArgs::query_scales of the rows from position `first` on; host memory.
  const float* QueryScales(int64_t first) const { return query_scales.empty() ? nullptr : query_scales.data() + first; }
  int64_t FirstLive(int64_t t) const;
  int64_t LastSeen(int64_t t) const;
  /// End of the chunk from row t on: `chunk` rows, fewer or more if it would divide rows that see each other.
  int64_t NextChunk(int64_t t, int64_t chunk) const;
  int64_t RingRows(int64_t chunk) const;
  KvShape Shape(int64_t chunk, int64_t layers = 1) const;
  /// [length, width], exact in every type of activations
  std::vector<float> Qkv() const;
};
/// [length, heads * value_dim] in double. Keys and values are exact, except in an E4M3 cache, whose rounding is
/// applied.
std::vector<double> DenseAttention(const AttentionCase& c);

/// cos and sin rows of positions [first, first + rows) of a case, as the engine would pass them to the backend.
struct AngleRows {
  std::vector<float> own_cos, own_sin, pinned_cos, pinned_sin;
  AngleRows(const AttentionCase& c, int64_t first, int64_t rows);
  RopeAngles angles() const { return {own_cos.data(), own_sin.data(), pinned_cos.data(), pinned_sin.data()}; }
};

/// Overwrites with NaN everything in a slab in host memory that the row at position `next` and later ones must not
/// read.
void PoisonSlab(const AttentionCase& c, const KvShape& shape, int64_t next, uint8_t* slab);

/// Feeds the case to a host backend, `chunk` rows at a time, into one slab. With `poison`, everything that a later row
/// must not read is overwritten with NaN before each chunk.
std::vector<float> RingAttention(Backend& backend, const AttentionCase& c, int64_t chunk, bool poison = false,
                                 int64_t ring_rows = 0);

}  // namespace ringside::testing
