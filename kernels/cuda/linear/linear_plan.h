// Selects the kernels of a linear layer: one table for all rows, shapes, weight types and devices. A pure function
// without CUDA. The step runner describes recorded operations (steps/linear_request.h), and launches what the plan
// names; `ringside-server --explain-kernels` prints plans.
// THREAD: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "kernels/cuda/device_traits.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

constexpr int kMaxLayerWeights = 3;         // matrices with the same input rows in one layer
constexpr int64_t kMaxFixedOrderRows = 32;  // rows up to which a layer can sum in one order whatever their number

enum class LinearKernel : uint8_t {
  kGemv,            // weights in x's type
  kGemvW8,          // one-byte weights
  kGemvBlockQuant,  // block-quantized weights
  kSmallGemm,       // weights in x's type
  kWgmmaGemm,       // weights in x's type
  kW8A16Gemm,       // one-byte weights
  kBlockQuantGemm,  // block-quantized weights
  kQuantizeRows,    // rows become E4M3; then each run of adjacent matrices has a plan with x in E4M3
  kFp8Gemm,         // x and weights in E4M3
  kCublasFp8,       // x and weights in E4M3; if cuBLASLt has no algorithm, the weights are dequantized
  kCublas,          // weights of other types are dequantized first, one panel at a time
  kReference,       // any shape, slow; as kCublas otherwise
};
/// The function that launches it.
std::string_view LinearKernelName(LinearKernel kernel);

/// The epilogue of a GEMM.
enum class LinearEpilogue : uint8_t { kNothing, kGeluTanh, kGeluErf, kSiluMultiply };

/// Layout of a matrix of activations. `aligned`: at a multiple of 16 bytes.
struct MatrixLayout {
  DType dtype = DType::kBF16;
  int64_t stride = 0;  // elements
  bool aligned = true;
};
/// A vector that may be missing.
struct VectorLayout {
  bool present = false;
  bool aligned = true;
};

/// y (+)= x W^T + bias.
struct LinearLayer {
  int64_t rows = 0, k = 0;
  std::array<int64_t, kMaxLayerWeights> outputs = {};  // of each matrix; 0 after the last
  DType dtype = DType::kBF16;                          // type of GEMMs: kF16 or kBF16
  DType weights = DType::kBF16;                        // dtype, one byte or block-quantized
  MatrixLayout x, y;
  bool weights_aligned = true, scales_aligned = true;
  bool contiguous = true;           // the matrices are adjacent in memory
  VectorLayout bias;                // float32
  VectorLayout rounded_bias;        // in y's type
  bool accumulate = false;          // y += instead of y =
  bool fixed_order = false;         // one summation order for any number of rows, up to kMaxFixedOrderRows
  bool panel = false;               // the weights are dequantized by the preceding kernel
  int64_t scratch_bytes = 1 << 27;  // for rows in E4M3

  int64_t total() const { return outputs[0] + outputs[1] + outputs[2]; }
};

/// A layer, and the neighbours that its kernel may absorb.
struct LinearRequest {
  LinearLayer layer;
  bool norm = false;                                   // x is the norm of float32 rows
  LinearEpilogue epilogue = LinearEpilogue::kNothing;  // consumes the whole result
  MatrixLayout product;                                // result of kSiluMultiply
  std::optional<LinearLayer> partner;                  // the next layer, with the same rows
};

/// Tiles of a kernel; 0 where a kernel leaves the figure to its launch.
struct LinearTile {
  int outputs = 0;          // rows of W per tile, gates and ups alike
  int rows = 0;             // rows of x per tile, of those that the kernel was compiled for
  int split_k = 1;          // blocks of a cluster, which divide the inputs
  int warps = 0;            // warps of a block that divide the inputs of a tile
  int blocks = 0;           // blocks in the grid's x
  int stages = 0;           // pipeline stages
  size_t shared_bytes = 0;  // shared memory; of kWgmmaGemm: the most that its stages may take

  friend bool operator==(const LinearTile&, const LinearTile&) = default;
};

struct LinearPlan {
  LinearKernel kernel = LinearKernel::kReference;
  int row = -1;  // of the table; -1: no row, so cuBLAS or the reference kernel
  LinearTile tile;
  bool norm = false;                                   // the norm is fused
  LinearEpilogue epilogue = LinearEpilogue::kNothing;  // fused
  bool bias = false;                                   // the bias is fused, if cuBLASLt has an algorithm that does so
  bool partner = false;                                // the partner shares the launch
  LinearTile partner_tile;
  bool overlap = true;  // the kernel may start while its predecessor drains

  friend bool operator==(const LinearPlan&, const LinearPlan&) = default;
};

/// ERRORS: kInvalidArgument for sizes below 1 or above 2^31 - 1, and for types that no kernel multiplies.
Result<LinearPlan> PlanLinear(const DeviceTraits& device, const LinearRequest& request);

/// The number of rows in the table.
int LinearTableRows();

/// Outputs that are dequantized at a time: they stay in the L2 cache, but are enough for a GEMM that fills every SM.
int64_t DequantizedPanelOutputs(const DeviceTraits& device, const LinearLayer& layer, int64_t max_outputs);

}  // namespace ringside::cuda
