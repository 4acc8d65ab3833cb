// Launch functions of the kernels of this folder: one plain C++ function each, asynchronous on a stream. Tensors are in
// device memory, in float32, float16 or bfloat16.
// THREAD: one, the backend's.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/device_traits.h"
#include "kernels/cuda/experts/experts_plan.h"
#include "kernels/cuda/experts/experts_selection.h"
#include "kernels/cuda/kernel_config.h"
#include "kernels/cuda/linear/linear_plan.h"
#include "kernels/cuda/linear/low_rank_plan.h"
#include "kernels/cuda/recurrence/recurrence_plan.h"
#include "kernels/cuda/rows/row_op.h"
#include "kernels/cuda/sampling/device_sampling_params.h"
#include "kernels/row_sampling_params.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

struct Launcher : DeviceTraits {
  cudaStream_t stream = nullptr;
  bool overlap = true;  // programmatic dependent launch: a kernel may start while its predecessor drains
  int cluster = 1;      // neighbouring blocks in grid x that form a cluster
};

/// DeviceTraits::clusters of the current device.
std::array<int, kMaxClusterBlocks + 1> QueryResidentClusters(int multiprocessors, int largest_cluster);

/// The architecture for which the kernels loaded on this device were compiled (900: compute capability 9.0), or 0 if
/// the device can run none.
int LoadedCodeArchitecture();

// ---- rows/rows.cu
/// y[r] (+)= row ids[r] of a table of `dtype` with y.cols columns, times `scale`; DeferredToken(i) stands for
/// sampled[i]. `ids` and `sampled` are in device memory. `scales`: row scales of a quantized table, otherwise null.
void LaunchEmbed(const Launcher& on, const void* table, DType dtype, const float* scales, const int32_t* ids,
                 const int32_t* sampled, float scale, Tensor y, bool accumulate);
/// RMSNorm (`bias` null and !layer) or LayerNorm of each row. Adds `added` to x first unless it is null.
void LaunchNorm(const Launcher& on, Tensor x, const float* weight, const float* bias, bool layer, float eps, Tensor y,
                const float* added = nullptr);
struct HeadsNorm {
  int64_t heads = 0;
  const float* weight = nullptr;  // [head size]
};
struct HeadsGate {
  Tensor values;  // as x; data is null without a gate
  GateKind kind = GateKind::kIdentity;
};
/// RMSNorm of the heads of x, in place, and then their gate. The `next` heads follow the first and have the same size.
void LaunchNormHeads(const Launcher& on, Tensor x, const HeadsNorm& first, const HeadsNorm& next, const HeadsGate& gate,
                     float eps);
void LaunchMultiplyActivated(const Launcher& on, Tensor x, Activation activation, Tensor y);
/// x = activation(x + bias), in place; the bias may be null.
void LaunchActivate(const Launcher& on, Tensor x, Activation activation, const float* bias = nullptr);
/// y += x; y is float32.
void LaunchAdd(const Launcher& on, Tensor x, Tensor y);
/// x = cap tanh(x / cap), in place.
void LaunchSoftCap(const Launcher& on, Tensor x, float cap);
void LaunchGatherRows(const Launcher& on, Tensor x, const int32_t* rows, Tensor y);
/// y[r][c] = x[r][columns[c]], converted to y's type.
void LaunchPermuteColumns(const Launcher& on, Tensor x, const int32_t* columns, Tensor y);
/// y = x, converted to y's type.
void LaunchConvert(const Launcher& on, Tensor x, Tensor y);
/// Copies pinned host memory to the device by loads from the SMs rather than by a copy engine; `bytes` is a multiple of
/// 16.
void LaunchUpload(const Launcher& on, void* to, const void* from, size_t bytes);
void LaunchAddBias(const Launcher& on, const float* bias, Tensor y);

// ---- rows/row_ops.cu
void LaunchRowOp(const Launcher& on, const Tensor& x, const Tensor& y, const RowOp& op);

// ---- linear/launch_linear.cpp
/// The operands of a linear layer, and of the operations that its plan fuses.
struct GemmArgs {
  static constexpr int kMaxWeights = kMaxLayerWeights;

  const void* weights[kMaxWeights] = {};  // [outputs[i], k] each
  const float* scales[kMaxWeights] = {};  // [outputs[i]] each, if the weights have row scales
  int outputs[kMaxWeights] = {};
  int total = 0, k = 0;
  // Weight types: that of x, one byte (w8_layout.h) or block-quantized (block_quant_layout.h).
  DType dtype = DType::kBF16, weight_dtype = DType::kBF16;
  Tensor x;  // [rows, k]; with `norm`: the destination of the normed rows
  const float* bias = nullptr;
  Tensor y;
  bool accumulate = false;
  LinearEpilogue epilogue = LinearEpilogue::kNothing;
  Tensor product;  // kSiluMultiply: [rows, total / 2]; y is not written

  bool norm = false, layer_norm = false;  // x is the norm of `normed_from` (float32)
  Tensor normed_from;
  const float* norm_weight = nullptr;
  const float* norm_bias = nullptr;
  float norm_eps = 0;
};
/// Launches the kernel of a plan (linear/linear_plan.h).
/// REQUIRES: args agrees with the request of the plan, which names one of the kernels below.
void LaunchLinear(const Launcher& on, const GemmArgs& args, const LinearPlan& plan);
/// As LaunchLinear for two layers in one launch, if plan.partner.
void LaunchTwoLinear(const Launcher& on, const GemmArgs& args, const GemmArgs& next, const LinearPlan& plan);

// Kernels of LaunchLinear. Each CHECKs its preconditions.
void LaunchGemv(const Launcher& on, const GemmArgs& args, const LinearTile& tile);
void LaunchGemvW8(const Launcher& on, const GemmArgs& args, const LinearTile& tile);
void LaunchGemvBlockQuant(const Launcher& on, const GemmArgs& args, const LinearTile& tile);
void LaunchGemvTwoBlockQuant(const Launcher& on, const GemmArgs& args, const GemmArgs& next, const LinearPlan& plan);
void LaunchSmallGemm(const Launcher& on, const GemmArgs& args, const LinearTile& tile);
void LaunchWgmmaGemm(const Launcher& on, const GemmArgs& args, const LinearTile& tile);
void LaunchW8A16Gemm(const Launcher& on, const GemmArgs& args, const LinearTile& tile);
void LaunchBlockQuantGemm(const Launcher& on, const GemmArgs& args, const LinearTile& tile);
void LaunchTwoBlockQuantGemm(const Launcher& on, const GemmArgs& args, const GemmArgs& next, const LinearPlan& plan);
/// Whether this program contains the WGMMA kernels for linear layers (DeviceTraits::wgmma).
bool HasWgmmaKernels();

// ---- linear/gemm_quantized/dequantize_rows.cu
/// Dequantizes rows of a weight from `first` on into y (kF16 or kBF16). The rows of y are contiguous.
void LaunchDequantizeRows(const Launcher& on, const void* weight, DType dtype, const float* scales, int64_t first,
                          Tensor y);

// ---- linear/gemm_quantized/dequantize_tiles.cu
/// As LaunchDequantizeRows, for block-quantized weights.
void LaunchDequantizeTiles(const Launcher& on, const void* weight, DType dtype, const float* units, int64_t first,
                           Tensor y);

// ---- linear/fp8/quantize_rows.cu
/// Rows quantized to E4M3 on the device, each in the order of w8_layout.h and zero-padded to whole groups.
struct QuantizedRows {
  Tensor q;  // [rows, W8RowBytes(inputs)]
  float* scales = nullptr;
};
void LaunchQuantizeRows(const Launcher& on, Tensor x, const QuantizedRows& to);
/// LaunchMultiplyActivated (SiLU) or LaunchNorm with the quantization fused in; the unquantized result is also stored
/// in y.
bool CanQuantizeSilu(const Tensor& x, const Tensor& y);
void LaunchSiluQuantize(const Launcher& on, Tensor x, Tensor y, const QuantizedRows& to);
bool CanQuantizeNorm(const Tensor& x, const float* weight, const float* bias, const Tensor& y);
void LaunchNormQuantize(const Launcher& on, Tensor x, const float* weight, const float* bias, bool layer, float eps,
                        Tensor y, const QuantizedRows& to);

// ---- linear/fp8/fp8_gemm.cu
/// y (+)= x W^T. W is [y.cols, inputs] with row scales, in the layout of x.
void LaunchFp8Gemm(const Launcher& on, const void* weight, const float* weight_scales, const QuantizedRows& x, Tensor y,
                   bool accumulate, const LinearTile& tile);

// ---- linear/linear_heads.cu
/// As Backend::LinearHeads: y_h = x_h W_h^T, with columns carried from x to y. The weight [heads * outputs, k] has the
/// type of x, kF16 or kBF16. `weight_is_made`: by the kernel before, which it then waits for.
void LaunchLinearHeads(const Launcher& on, const void* weight, bool weight_is_made, int64_t heads, int64_t outputs,
                       Tensor x, Tensor y);

// ---- linear/low_rank.cu
/// y += the low-rank updates of the rows' adapters to a linear layer of x; the adapter matrices have this type.
void LaunchLowRank(const Launcher& on, const LowRankPlan& plan, DType dtype, Tensor x, Tensor y);

/// Reference kernel: any shape and any types, slow.
void LaunchReferenceGemm(const Launcher& on, const void* weight, DType dtype, int64_t outputs, Tensor x, Tensor y,
                         bool accumulate);

// ---- attention/
void LaunchStoreRows(const Launcher& on, const AttentionPlan& plan);
/// Whether there is a tensor core kernel for the plan's element type and head size.
bool HasTiledAttention(const AttentionPlan& plan);
void LaunchTiledAttention(const Launcher& on, const AttentionPlan& plan);
/// Number of resident row tiles (of few rows or of chunks) if the keys of each are split over `splits` blocks.
int ResidentAttentionTiles(const Launcher& on, DType cache, int64_t head_dim, bool chunk, int splits);
/// Reduces the split-K partial results in plan.partial of tiles with up to `queries` query rows (rows times heads);
/// used by the small configuration, which has no clusters, and with AttentionPlan::apart.
void LaunchReduceSplits(const Launcher& on, const AttentionPlan& plan, const StagedTile* tiles, int64_t count,
                        int queries, int splits);
/// Queries per block of the WGMMA kernel for chunks of up to `queries` queries that see up to `keys` keys; 0 if this
/// program has no such kernel.
/// REQUIRES: AllowsVec8; queries and results have one type.
int32_t WgmmaAttentionQueries(DType cache, int64_t head_dim, int64_t queries, int64_t keys);
void LaunchWgmmaAttention(const Launcher& on, const AttentionPlan& plan);
int ResidentWgmmaTiles(const AttentionPlan& plan, int splits);
/// Queries per tile of the kernel for wide heads (latent attention, and heads of 512 dimensions); 0 if there is none
/// for the plan's sizes.
int32_t WideAttentionQueries(const AttentionPlan& plan);
/// Bytes of plan.partial per split of a tile of heads.
int64_t WidePartialBytes(const AttentionPlan& plan);
/// `partial_bytes`: room at plan.partial.
void LaunchWideAttention(const Launcher& on, const AttentionPlan& plan, int64_t partial_bytes);
/// Reference kernel: any head size, any element type, slow.
void LaunchReferenceAttention(const Launcher& on, const AttentionPlan& plan);

// ---- experts/
/// Computes routing weights, order and groups; for many rows also ids.
void LaunchRouteExperts(const Launcher& on, const ExpertsCall& call);
/// Compute the parts by call.path: block-quantized weights; few rows with 16-bit weights; many rows.
void LaunchTiledExperts(const Launcher& on, const ExpertsCall& call, const ExpertsSelection& selection);
void LaunchFewExperts(const Launcher& on, const ExpertsCall& call);
void LaunchManyExperts(const Launcher& on, const ExpertsCall& call);
/// All of the above for one row, and the sum, if selection.one_row.
void LaunchRowExperts(const Launcher& on, const ExpertsCall& call, const ExpertsSelection& selection);
/// y += the weighted sum of the parts.
void LaunchSumParts(const Launcher& on, const ExpertsCall& call);

// ---- recurrence/
/// Convolved channels with their norms, G and b in plan.mixed; with kConvolution the result. Stores the convolution's
/// inputs: in the window of each boundary that a segment stores, and in the tail unless StagedState::late.
void LaunchConvolveRows(const Launcher& on, const RecurrencePlan& plan);
/// Results, boundary states and rows of the tail of plan.parts; of the tail only u if StagedState::late.
void LaunchUpdateState(const Launcher& on, const RecurrencePlan& plan);
/// LaunchConvolveRows and LaunchUpdateState in one launch, with equal bits. Does not use plan.mixed.
/// REQUIRES: plan.has_state, parts of one row each, and no runs.
void LaunchSingleRows(const Launcher& on, const RecurrencePlan& plan);
/// Whether there are kernels for runs of chunks of these sizes.
bool HasChunkKernels(const Launcher& on, const RecurrencePlan& plan);
/// Scratch memory for a chunk of all heads.
size_t ChunkImageBytes(const RecurrencePlan& plan);
/// Chunks [first, first + count) of every run. `images` has room for count chunks of all runs.
struct ChunkRange {
  int first = 0, count = 0;
};
/// The chunks' weights, with their keys and queries, as LaunchChunkStates reads them.
void LaunchHeadWeights(const Launcher& on, const RecurrencePlan& plan, const ChunkRange& chunks, void* images);
/// As LaunchHeadWeights for decays of key channels.
void LaunchChannelWeights(const Launcher& on, const RecurrencePlan& plan, const ChunkRange& chunks, void* images);
/// As LaunchUpdateState for the chunks. REQUIRES: their weights.
void LaunchChunkStates(const Launcher& on, const RecurrencePlan& plan, const ChunkRange& chunks, const void* images);
/// As LaunchChunkStates with WGMMA, if there is a kernel for the plan's sizes.
bool HasWgmmaStates(const Launcher& on, const RecurrencePlan& plan);
void LaunchWgmmaStates(const Launcher& on, const RecurrencePlan& plan, const ChunkRange& chunks, const void* images);
/// The rest of the tail of segments that are StagedState::late.
void LaunchStoreTail(const Launcher& on, const RecurrencePlan& plan);

// ---- sampling/sample_tokens.cu
/// sampled[r] = the token sampled with row_params[r] (device memory) from row r of `logits` (float32), which is
/// modified. `sampled` may be pinned host memory; `ids` [rows], in device memory, receives the tokens alone.
void LaunchSampleTokens(const Launcher& on, Tensor logits, const DeviceSamplingParams* row_params,
                        SampledToken* sampled, int32_t* ids);

}  // namespace ringside::cuda
