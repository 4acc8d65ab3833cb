// Shared by the streaming kernels (gemv.cuh, block_quant_gemv.cuh): their arguments, and the epilogue of a tile.
// Included by .cu files only.
#pragma once

#include "kernels/cuda/linear/gemm_inl.cuh"

namespace ringside::cuda {

/// The arguments, with rows of x in shared memory padded to whole K tiles of `chunk` inputs. CHECKs the preconditions
/// of a GEMV.
inline GemmParams ToGemvParams(const GemmArgs& args, int chunk) {
  CheckVectorLoads(args);
  CHECK(args.x.rows <= kMaxGemvRows && args.k >= kMinGemvInputs);
  GemmParams a = ToGemmParams(args);
  a.x_shared_stride = static_cast<int>(GemvRowStride(args.k, chunk));
  return a;
}

/// Bias and old value of one result of a tile, prefetched while the sums are computed.
struct TileResult {
  int row = 0, place = 0, output = 0;
  bool there = false;
  float bias = 0, up_bias = 0, old = 0;

  /// The i-th result of a tile of kOutputs, for a layer of `all` outputs.
  template <int kOutputs, bool kGateUp>
  static __device__ __forceinline__ TileResult Fetch(const GemmParams& a, int tile, int i, int all) {
    TileResult r;
    r.row = i / kOutputs, r.place = i % kOutputs, r.output = tile * kOutputs + r.place;
    r.there = r.row < a.rows && r.output < all;
    if (!r.there) return r;
    if (a.bias != nullptr) r.bias = a.bias[r.output];
    if (kGateUp && a.bias != nullptr) r.up_bias = a.bias[all + r.output];
    if (!kGateUp && a.accumulate) r.old = LoadElement(a.y, a.y_dtype, r.row * a.y_stride + r.output);
    return r;
  }

  /// Epilogue: stores SiLU(gate + bias) * (up + bias), or the biased (and GELU'd) sum plus the old value. `sum` and
  /// `up_sum` already include the output scale.
  template <class T, bool kGateUp>
  __device__ __forceinline__ void Store(const GemmParams& a, float sum, float up_sum) const {
    float value = sum + bias;
    if constexpr (kGateUp) {
      value = SiluOf(RoundTo(a.y_dtype, value)) * RoundTo(a.y_dtype, up_sum + up_bias);
      static_cast<T*>(a.product)[row * a.product_stride + output] = FromFloat<T>(value);
    } else {
      if (a.epilogue == LinearEpilogue::kGeluTanh || a.epilogue == LinearEpilogue::kGeluErf) {
        value = GeluOf(RoundTo(a.y_dtype, value), a.epilogue == LinearEpilogue::kGeluTanh);
      }
      StoreElement(a.y, a.y_dtype, row * a.y_stride + output, old + value);
    }
  }
};

}  // namespace ringside::cuda
