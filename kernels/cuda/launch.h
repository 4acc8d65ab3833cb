// Launching the kernels of this folder: one plain C++ function each, asynchronous on a stream. Tensors are on the
// device, float32, float16 or bfloat16. Called by the backend, one thread.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/experts/experts_plan.h"
#include "kernels/cuda/kernel_set.h"
#include "kernels/cuda/linear/low_rank_plan.h"
#include "kernels/cuda/sampling/choice_row.h"
#include "kernels/tensor.h"
#include "kernels/token_choice.h"

namespace ringside::cuda {

constexpr int kMostOfCluster = 8;  // blocks

struct Launcher {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
  bool overlap = true;  // a kernel may come onto the device while its predecessor ends
  int cluster = 1;      // neighbouring blocks of a grid's x that share a cluster
  int largest_cluster = 1;
  // How many clusters of so many blocks the device holds, where each block takes a multiprocessor.
  std::array<int, kMostOfCluster + 1> clusters = {};
  bool large = true;    // which set of sizes the kernels here have
  bool hopper = false;  // compute capability 9.0, with what only it has
};

/// Launcher::clusters of the present device.
std::array<int, kMostOfCluster + 1> CountClusters(int multiprocessors, int largest_cluster);

/// The architecture that the kernels which this device runs were compiled for (900: compute capability 9.0), or 0 if it
/// can run none of them.
int LoadedArchitecture();

// ---- rows.cu
/// y[r] (+)= row ids[r] of a table of `dtype` with y.cols columns, times `scale`; AwaitedToken(i) stands for chosen[i].
/// Both on the device. `scales`: of the rows of a quantised table, otherwise null.
void LaunchEmbed(const Launcher& on, const void* table, DType dtype, const float* scales, const int32_t* ids,
                 const int32_t* chosen, float scale, Tensor y, bool accumulate);
/// RMS norm (bias null and !layer) or layer norm of each row; x += added first, if not null.
void LaunchNorm(const Launcher& on, Tensor x, const float* weight, const float* bias, bool layer, float eps, Tensor y,
                const float* added = nullptr);
struct HeadsNorm {
  int64_t heads = 0;
  const float* weight = nullptr;  // of a head's values
};
/// RMS norms of x's heads in place; the `next` heads lie behind the first and have as many values each.
void LaunchNormHeads(const Launcher& on, Tensor x, const HeadsNorm& first, const HeadsNorm& next, float eps);
void LaunchMultiplyActivated(const Launcher& on, Tensor x, Activation activation, Tensor y);
/// x = activation(x + bias), in place; the bias may be null.
void LaunchActivate(const Launcher& on, Tensor x, Activation activation, const float* bias = nullptr);
/// y += x; float32.
void LaunchAdd(const Launcher& on, Tensor x, Tensor y);
/// x = cap tanh(x / cap), in place.
void LaunchSoftCap(const Launcher& on, Tensor x, float cap);
void LaunchGatherRows(const Launcher& on, Tensor x, const int32_t* rows, Tensor y);
/// y[r][c] = x[r][columns[c]] in y's type.
void LaunchTakeColumns(const Launcher& on, Tensor x, const int32_t* columns, Tensor y);
/// y = x in y's type.
void LaunchConvert(const Launcher& on, Tensor x, Tensor y);
/// Pinned host memory to the device, read by the multiprocessors; multiples of 16 bytes.
void LaunchUpload(const Launcher& on, void* to, const void* from, size_t bytes);
void LaunchAddBias(const Launcher& on, const float* bias, Tensor y);

// ---- linear/skinny_linear.cu
/// What follows the product, on its way out.
enum class AfterLinear { kNothing, kGeluTanh, kGeluErf, kSiluMultiply };

struct SkinnyLinear {
  static constexpr int kMaxWeights = 3;
  static constexpr int64_t kMaxRows = 32;              // of x
  static constexpr int64_t kMaxQuantisedRows = 128;    // of x, where weights have one byte
  static constexpr int64_t kSmall = int64_t{2} << 20;  // elements of W up to which all these rows are taken

  const void* weights[kMaxWeights] = {};  // [outputs[i], k] each
  const float* scales[kMaxWeights] = {};  // [outputs[i]] each, if the weights have them
  int outputs[kMaxWeights] = {};
  int total = 0, k = 0;
  // Of x; the same, of one byte (quantised_layout.h) or in tiles (grouped_layout.h).
  DType dtype = DType::kBF16, weight_dtype = DType::kBF16;
  Tensor x;  // [rows, k]; with `norm`: where the normed rows go
  const float* bias = nullptr;
  Tensor y;
  bool accumulate = false;
  AfterLinear after = AfterLinear::kNothing;
  Tensor product;            // kSiluMultiply: [rows, total / 2], and y is not written
  bool fixed_order = false;  // one order of summation, whatever the number of rows: taken up to kMaxRows

  bool norm = false, layer_norm = false;  // x is the norm of `normed_from` (float32)
  Tensor normed_from;
  const float* norm_weight = nullptr;
  const float* norm_bias = nullptr;
  float norm_eps = 0;

  bool small() const { return int64_t{k} * total <= kSmall; }
};
/// Whether LaunchSkinnyLinear takes it: few rows, sizes and addresses that allow 16-byte loads.
bool IsSkinny(const SkinnyLinear& args);
/// Whether it may also compute the norm in front, which every block repeats.
bool CanFuseNorm(int64_t rows, int64_t k);
void LaunchSkinnyLinear(const Launcher& on, const SkinnyLinear& args);
// ---- linear/stream/stream_linear.cu
/// Whether LaunchStreamLinear takes what IsSkinny does: up to 4 rows that fit in shared memory.
bool CanStream(const Launcher& on, const SkinnyLinear& args);
void LaunchStreamLinear(const Launcher& on, const SkinnyLinear& args);
// ---- linear/stream/stream_linear_8bit.cu
void LaunchStreamLinear8Bit(const Launcher& on, const SkinnyLinear& args);

// ---- linear/stream/stream_linear_grouped.cu
/// The same of weights in tiles.
bool CanStreamGrouped(const Launcher& on, const SkinnyLinear& args);
void LaunchStreamLinearGrouped(const Launcher& on, const SkinnyLinear& args);
/// Two layers of the same rows at once, the second's weights of six bits and the first's of fewer; both with the same
/// norm in front, or none.
bool CanStreamTwoGrouped(const Launcher& on, const SkinnyLinear& args, const SkinnyLinear& next);
void LaunchStreamTwoGrouped(const Launcher& on, const SkinnyLinear& args, const SkinnyLinear& next);

// ---- linear/grouped_linear.cu
/// Whether LaunchGroupedLinear takes it, weights in tiles: 1 to 1,024 rows on compute capability 9.0; no norm in front.
bool CanGroup(const Launcher& on, const SkinnyLinear& args);
void LaunchGroupedLinear(const Launcher& on, const SkinnyLinear& args);
/// As LaunchStreamTwoGrouped, of so many rows.
bool CanGroupTwo(const Launcher& on, const SkinnyLinear& args, const SkinnyLinear& next);
void LaunchTwoGroupedLinear(const Launcher& on, const SkinnyLinear& args, const SkinnyLinear& next);

// ---- linear/quantised_linear.cu
/// Weights of one byte, up to SkinnyLinear::kMaxQuantisedRows rows; no norm in front.
void LaunchQuantisedLinear(const Launcher& on, const SkinnyLinear& args);

// ---- linear/expand_rows.cu
/// y = rows of a quantised weight from `first` on, in y's type (kF16 or kBF16); y's rows lie one behind the other.
void LaunchExpandRows(const Launcher& on, const void* weight, DType dtype, const float* scales, int64_t first,
                      Tensor y);

// ---- linear/expand_tiles.cu
/// The same of a weight in tiles.
void LaunchExpandTiles(const Launcher& on, const void* weight, DType dtype, const float* units, int64_t first,
                       Tensor y);

// ---- linear/quantise_rows.cu
/// Rows in E4M3 on the device, each in the order of quantised_layout.h and filled up to whole groups with zeros.
struct E4M3Rows {
  Tensor q;  // [rows, QuantisedRowBytes(inputs)]
  float* scales = nullptr;
};
/// What rows are quantised from: 16 bits an element, 16 bytes at a time.
bool CanQuantiseRows(const Tensor& x);
void LaunchQuantiseRows(const Launcher& on, Tensor x, const E4M3Rows& to);
/// The same of what LaunchMultiplyActivated by SiLU and LaunchNorm make, and leave in y, too.
bool CanQuantiseSilu(const Tensor& x, const Tensor& y);
void LaunchSiluQuantise(const Launcher& on, Tensor x, Tensor y, const E4M3Rows& to);
bool CanQuantiseNorm(const Tensor& x, const float* weight, const float* bias, const Tensor& y);
void LaunchNormQuantise(const Launcher& on, Tensor x, const float* weight, const float* bias, bool layer, float eps,
                        Tensor y, const E4M3Rows& to);

// ---- linear/e4m3_linear.cu
/// Whether LaunchE4M3Linear takes it: up to 128 rows on compute capability 9.0, y four outputs at a time.
bool CanMultiplyE4M3(const Launcher& on, const void* weight, const float* weight_scales, const E4M3Rows& x, Tensor y,
                     bool accumulate);
/// y (+)= x W^T; W [y.cols, as x.q] and its rows' scales lie as x's.
void LaunchE4M3Linear(const Launcher& on, const void* weight, const float* weight_scales, const E4M3Rows& x, Tensor y,
                      bool accumulate);

// ---- linear/batch_linear.cu
/// Whether LaunchBatchLinear takes it: 5 to 64 rows, or fewer that LaunchStreamLinear does not take; weights that lie
/// side by side, not both narrow and small; no norm in front.
bool CanBatch(const Launcher& on, const SkinnyLinear& args);
void LaunchBatchLinear(const Launcher& on, const SkinnyLinear& args);

// ---- linear/low_rank.cu
/// y += what the rows' adapters, whose matrices have this type, add to a linear layer of x.
void LaunchLowRank(const Launcher& on, const LowRankPlan& plan, DType dtype, Tensor x, Tensor y);

/// Any shape and any types, slowly.
void LaunchNaiveLinear(const Launcher& on, const void* weight, DType dtype, int64_t outputs, Tensor x, Tensor y,
                       bool accumulate);

// ---- attention/
void LaunchStoreRows(const Launcher& on, const AttentionPlan& plan);
/// Whether there is a tensor core kernel for this element type and head size.
bool HasTiledAttention(DType cache, int64_t head_dim);
void LaunchTiledAttention(const Launcher& on, const AttentionPlan& plan);
/// How many tiles of rows (of few or of chunks) are on the device at a time, if the keys of each are split over so many
/// blocks.
int ResidentAttentionTiles(const Launcher& on, DType cache, int64_t head_dim, bool chunk, int splits);
/// Joins what the blocks of each tile of up to `queries` rows times heads left in plan.partial: the small set's way.
void LaunchJoinSplits(const Launcher& on, const AttentionPlan& plan, const StagedTile* tiles, int64_t count,
                      int queries, int splits);
/// Chunks of rows on Hopper: how many queries a block should take where a chunk has up to `queries` that see up to
/// `keys` keys; 0 where there is no such kernel in this program. Needs AllowsEights, queries and results of one type.
int32_t WgmmaAttentionQueries(DType cache, int64_t head_dim, int64_t queries, int64_t keys);
void LaunchWgmmaAttention(const Launcher& on, const AttentionPlan& plan);
int ResidentWgmmaTiles(const AttentionPlan& plan, int splits);
/// Any head size, any element type, slowly.
void LaunchPlainAttention(const Launcher& on, const AttentionPlan& plan);

// ---- experts/
/// Fills in weights, order and groups, and ids of many rows.
void LaunchRouteExperts(const Launcher& on, const ExpertsCall& call);
/// What is fastest on an H200 where rows take experts by chance. `hidden`: D.
ExpertsWay WayOfExperts(const Launcher& on, const ExpertsPlan& plan, int64_t hidden, int64_t rows);
/// Whether all experts' weights are in tiles that a way takes, and it has room.
bool CanTakeExpertsInTiles(const Launcher& on, const ExpertsPlan& plan, ExpertsWay way, int64_t hidden, int64_t rows);
/// The parts, from all of these, in call.way: with weights in tiles, few rows with weights of 16 bits, and many rows.
void LaunchTiledExperts(const Launcher& on, const ExpertsCall& call);
void LaunchFewExperts(const Launcher& on, const ExpertsCall& call);
void LaunchManyExperts(const Launcher& on, const ExpertsCall& call);
/// y += the parts times their weights.
void LaunchSumParts(const Launcher& on, const ExpertsCall& call);

// ---- sampling/choose_tokens.cu
/// chosen[r] = what choices[r] (on the device) chooses from row r of `logits` (float32), which are changed. `chosen`
/// may be pinned host memory; `ids` [rows], on the device, gets the tokens alone.
void LaunchChooseTokens(const Launcher& on, Tensor logits, const ChoiceRow* choices, ChosenToken* chosen, int32_t* ids);

}  // namespace ringside::cuda
