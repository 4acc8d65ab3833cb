// Shared by the small-M linear kernels: 32-bit arguments, weight addressing, the fused preceding norm, and the
// epilogue. Included by .cu files only.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/block_quant_weights.cuh"
#include "kernels/cuda/linear/linear_sizes.h"
#include "kernels/cuda/linear/w8_weights.cuh"

namespace ringside::cuda {

/// Arguments of the kernels: GemmArgs in 32 bits.
struct GemmParams {
  const void* weights[GemmArgs::kMaxWeights];
  const float* scales[GemmArgs::kMaxWeights];
  int64_t row_elements;  // distance between rows of a weight, or between panels of a block-quantized one
  int outputs[GemmArgs::kMaxWeights];
  int total, k, rows;
  void* x;
  int64_t x_stride;
  const float* bias;
  void* y;
  DType y_dtype;
  int64_t y_stride;
  bool accumulate;
  LinearEpilogue epilogue;
  void* product;
  int64_t product_stride;
  const float* normed_from;
  int64_t normed_from_stride;
  const float* norm_weight;
  const float* norm_bias;
  float norm_eps;
  bool layer_norm;
  int x_shared_stride;  // elements between rows of x in shared memory
};

/// The first input of an output's row, or null past the last output.
template <class W>
__device__ __forceinline__ const W* WeightRow(const GemmParams& a, int output) {
  if (output >= a.total) return nullptr;
  int w = 0;
  while (w + 1 < GemmArgs::kMaxWeights && output >= a.outputs[w]) output -= a.outputs[w++];
  return static_cast<const W*>(a.weights[w]) + output * a.row_elements;
}
/// The tile of block-quantized weights with eight outputs from `output` on (a multiple of 8) and the first inputs. The
/// next K tile is kPanelTiles tiles further. Null past the last output.
template <class W>
__device__ __forceinline__ const unsigned char* WeightTile(const GemmParams& a, int output) {
  if (output >= a.total) return nullptr;
  int w = 0;
  while (w + 1 < GemmArgs::kMaxWeights && output >= a.outputs[w]) output -= a.outputs[w++];
  return static_cast<const unsigned char*>(a.weights[w]) + output / kPanelRows * a.row_elements +
         output % kPanelRows / kTileRows * W::Tile::kBytes;
}
/// The scales of the tiles of eight outputs from `output` on, for E4M3 tiles. REQUIRES: output < a.total.
__device__ __forceinline__ const float* TileScales(const GemmParams& a, int output) {
  int w = 0;
  while (w + 1 < GemmArgs::kMaxWeights && output >= a.outputs[w]) output -= a.outputs[w++];
  return a.scales[w] + TileScaleAt(output, 0, a.k);
}
/// The row scale of an output, for one-byte weights; or its unit, for block-quantized ones.
__device__ __forceinline__ const float* ScalePointer(const GemmParams& a, int output) {
  int w = 0;
  while (w + 1 < GemmArgs::kMaxWeights && output >= a.outputs[w]) output -= a.outputs[w++];
  return a.scales[w] + output;
}
/// Applies the row scale of an output to a sum over the inputs.
template <class T, class W>
__device__ __forceinline__ float Scaled(const GemmParams& a, float sum, int output) {
  if constexpr (!kHasRowScales<W>) return sum;
  return sum * kConversionScale<T, W> * *ScalePointer(a, output);
}

constexpr int kNormVectors = 4;  // per thread

constexpr int kWarpNormVectors = 8;  // per lane

/// As NormToShared with one warp per row, so that rows need no block barrier. The norm's weights and biases are in
/// cache since `vectors` was loaded.
template <class T>
__device__ __forceinline__ void NormRowsByWarps(const GemmParams& a, T* shared_x) {
  for (int r = threadIdx.x / 32; r < a.rows; r += kWarps) {
    float4 v[kWarpNormVectors];
#pragma unroll
    for (int j = 0; j < kWarpNormVectors; ++j) v[j] = RowFloat4<32>(a.normed_from + r * a.normed_from_stride, j, a.k);
    NormFloat4s<32>(
        v, a.k, a.layer_norm, a.norm_eps, nullptr, [&](int j) { return RowFloat4<32>(a.norm_weight, j, a.k); },
        [&](int j) { return RowFloat4<32>(a.layer_norm ? a.norm_bias : nullptr, j, a.k); },
        [&](int c, float4 four) {
          alignas(8)
              const T out[4] = {FromFloat<T>(four.x), FromFloat<T>(four.y), FromFloat<T>(four.z), FromFloat<T>(four.w)};
          const uint2 bits = *reinterpret_cast<const uint2*>(out);
          *reinterpret_cast<uint2*>(shared_x + r * a.x_shared_stride + c) = bits;
          if (blockIdx.x == 0) *reinterpret_cast<uint2*>(static_cast<T*>(a.x) + r * a.x_stride + c) = bits;
        });
  }
}

/// Writes the normed rows to shared memory; block 0 also stores them to a.x, as a separate norm kernel would.
template <class T>
__device__ void NormToShared(const GemmParams& a, const NormVectors<kNormVectors>& vectors, T* shared_x,
                             float* shared_sums) {
  if (a.rows > 1 && a.k <= 128 * kWarpNormVectors && vectors.wide && AllowsVectorAccess(a.normed_from) &&
      a.normed_from_stride % 4 == 0) {
    NormRowsByWarps(a, shared_x);
    __syncthreads();
    return;
  }
  for (int r = 0; r < a.rows; ++r) {
    const auto emit = [&](int c, float value) {
      const T rounded = FromFloat<T>(value);
      shared_x[r * a.x_shared_stride + c] = rounded;
      if (blockIdx.x == 0) static_cast<T*>(a.x)[r * a.x_stride + c] = rounded;
    };
    NormRow(a.normed_from + r * a.normed_from_stride, vectors, a.norm_weight, a.norm_bias, a.k, a.layer_norm,
            a.norm_eps, shared_sums, emit);
  }
  __syncthreads();
}

__device__ __forceinline__ float AddBias(const GemmParams& a, float sum, int output) {
  return a.bias != nullptr ? sum + a.bias[output] : sum;
}

__device__ __forceinline__ void StoreOutput(const GemmParams& a, int row, int output, float value) {
  const int64_t at = row * a.y_stride + output;
  StoreElement(a.y, a.y_dtype, at, a.accumulate ? LoadElement(a.y, a.y_dtype, at) + value : value);
}

/// Epilogue of one output: scale, bias, activation, store. In StoreGateUp `output` is a gate's and `up_sum` belongs to
/// its up.
template <class T, class W>
__device__ __forceinline__ void StoreOutputEpilogue(const GemmParams& a, int row, int output, float sum) {
  float value = AddBias(a, Scaled<T, W>(a, sum, output), output);
  if (a.epilogue == LinearEpilogue::kGeluTanh || a.epilogue == LinearEpilogue::kGeluErf) {
    value = GeluOf(RoundTo(a.y_dtype, value), a.epilogue == LinearEpilogue::kGeluTanh);
  }
  StoreOutput(a, row, output, value);
}
template <class T, class W>
__device__ __forceinline__ void StoreGateUp(const GemmParams& a, int row, int output, float gate_sum, float up_sum) {
  const int half = a.total / 2;
  const float gate = RoundTo(a.y_dtype, AddBias(a, Scaled<T, W>(a, gate_sum, output), output)),
              up = RoundTo(a.y_dtype, AddBias(a, Scaled<T, W>(a, up_sum, half + output), half + output));
  static_cast<T*>(a.product)[row * a.product_stride + output] = FromFloat<T>(SiluOf(gate) * up);
}

/// CHECKs the precondition of kernels that load x and W 16 bytes at a time.
inline void CheckVectorLoads(const GemmArgs& args) {
  CHECK(args.k % 8 == 0 && args.x.dtype == args.dtype && args.x.stride % 8 == 0 && Aligned(args.x.data));
  for (const void* weight : args.weights) CHECK(Aligned(weight));
}

inline GemmParams ToGemmParams(const GemmArgs& args) {
  GemmParams a = {};
  for (int i = 0; i < GemmArgs::kMaxWeights; ++i) {
    a.weights[i] = args.weights[i], a.scales[i] = args.scales[i], a.outputs[i] = args.outputs[i];
  }
  a.row_elements = HasRowScales(args.weight_dtype)     ? W8RowBytes(args.k)
                   : HasGroupScales(args.weight_dtype) ? PanelBytes(args.weight_dtype, args.k)
                                                       : args.k;
  a.total = args.total, a.k = args.k, a.rows = static_cast<int>(args.x.rows);
  a.x = args.x.data, a.x_stride = args.x.stride;
  a.bias = args.bias;
  a.y = args.y.data, a.y_dtype = args.y.dtype, a.y_stride = args.y.stride;
  a.accumulate = args.accumulate, a.epilogue = args.epilogue;
  a.product = args.product.data, a.product_stride = args.product.stride;
  a.normed_from = static_cast<const float*>(args.normed_from.data), a.normed_from_stride = args.normed_from.stride;
  a.norm_weight = args.norm_weight, a.norm_bias = args.norm_bias;
  a.norm_eps = args.norm_eps, a.layer_norm = args.layer_norm;
  // Consecutive rows are offset by half of the banks, so that 64 bytes of two rows are in different banks.
  a.x_shared_stride = (args.k + 63) / 64 * 64 + 32;
  return a;
}

}  // namespace ringside::cuda
