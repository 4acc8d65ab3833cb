// The device: memory, copies and the coarse operations a decoder network is made of. One implementation per kind of
// device (kernels/cpu is the reference). Calls come from one thread (the engine's); a backend may spread the work.
//
// One arithmetic: on the CPU every operation computes a row with the same operations in the same order whatever else is
// in the call - 1 row or 512, 1 thread or many, any instruction set. So a row's bits depend on nothing but the row. On
// CUDA the order may depend on how many rows there are: what is equal there is equal within a tolerance, unless
// CudaBackendOptions::deterministic.
//
// A backend may put operations off and do them together: results are there after Synchronize, or after WaitFor what was
// submitted. Host memory that an operation takes (ids, segments, angles) is read before it returns; memory that a copy
// reads or writes on the host must stay until then. Slabs go to the host and back beside the operations (SaveSlab,
// LoadSlab).
//
// A device that has failed has failed for good: status() says so, and what results hold from then on is not known.
//
// Letters: T rows (tokens) of a step, D hidden size, H query heads, G key/value heads, d head size, n outputs, k
// inputs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "kernels/activation.h"
#include "kernels/backend_options.h"
#include "kernels/low_rank.h"
#include "kernels/random_weights.h"
#include "kernels/ranks/comm.h"
#include "kernels/rope_pairs.h"
#include "kernels/score_traits.h"
#include "kernels/slab_memory.h"
#include "kernels/tensor.h"
#include "kernels/token_choice.h"

namespace ringside {

/// Cosine and sine of position * inverse frequency, taken in float64 and rounded: [T, rotary / 2] each, on the host.
/// (RoFormer, Su et al. 2021.) `own` belongs to the row's own position t and turns its key and its query against ring
/// keys; `pinned` to c = S + t - first_live(t), and turns its query against pinned keys (StreamingLLM, Xiao et al.
/// 2023: a pinned key is at its distance in the cache). Where nothing is evicted c = t and the two rows are equal.
struct RopeAngles {
  const float* own_cos = nullptr;
  const float* own_sin = nullptr;
  const float* pinned_cos = nullptr;
  const float* pinned_sin = nullptr;
};

/// Consecutive rows of a step that belong to one sequence.
struct AttentionSegment {
  int64_t first_row = 0;  // in the step
  int64_t rows = 0;
  int64_t position = 0;                 // of the first row's token; row r stands at position + r
  int64_t pinned = 0;                   // S: positions below it are never evicted
  const int64_t* first_live = nullptr;  // [rows], host: oldest ring position that row r sees (>= S)
  void* slab = nullptr;                 // the sequence's cache, in the layout of KvShape
  // Of a cache that branches off another's (KvCache::BranchOff) the slab has positions from `branch` on only,
  // from its beginning; those before it lie in their places in `history`, which is read. `branch` is S or begins a tile
  // of the ring. null: the slab has all.
  const void* history = nullptr;
  int64_t branch = 0;
};

struct AttentionArgs {
  Tensor qkv;  // [T, (H + 2G) d]: queries, keys, values, none rotated; [T, H d] of rows that ask only
  Tensor out;  // [T, H d]
  int64_t layer = 0;
  KvShape shape;       // G and d of it are the keys'
  int64_t heads = 0;   // H, a multiple of G; 0: keys and values are stored, and nothing is asked
  int64_t rotary = 0;  // rotated dimensions of a head, even, <= d
  RopePairs pairs = RopePairs::kNone;
  RopeAngles angles;
  ScoreTraits scores;
  KeysSeen seen = KeysSeen::kBefore;
  std::span<const AttentionSegment> segments;
  // Calls with one number that is not 0 promise equal segments, and equal angles where they lie in one place, back to
  // the last Synchronize: a backend may take them to the device once for all layers.
  uint64_t step = 0;
};

struct LinearArgs {
  Tensor x;                                // [T, k]
  std::span<const Weight* const> weights;  // each [n_i, k]; outputs stand side by side in this order
  const float* bias = nullptr;             // [sum n_i] on the device, or null
  Tensor y;                                // [T, sum n_i]
  bool accumulate = false;                 // y += instead of y =: the residual stream
  const void* rounded_bias = nullptr;      // the bias in weight_dtype() too, or null: what products may take instead
};

/// One MLP of several among which a router chooses.
struct Expert {
  std::span<const Weight> in;       // gate and up, or both in one: [2F, D] together
  const float* in_bias = nullptr;   // [2F] on the device, or null
  const Weight* out = nullptr;      // [D, F]
  const float* out_bias = nullptr;  // [D]
};

struct ExpertsArgs {
  Tensor x;       // [T, D]
  Tensor router;  // [T, number of experts], kF32: a logit for each
  std::span<const Expert> experts;
  const void* placed = nullptr;  // what PlaceExperts gave for them
  int64_t used = 0;              // experts that a row takes: those with the highest logits, of equal ones the first
  bool normalised = false;       // the weights of those taken add up to 1: softmax over them, not over all
  bool shared = false;           // the last one is taken by all rows besides, by the sigmoid of its own logit
  Activation activation = Activation::kSilu;
  Tensor y;  // [T, D]
};

class Backend : public SlabMemory {
 public:
  // ---- memory; sizes in bytes -----------------------------------------------------------------------------------
  /// Zeroed device memory, or kOverloaded naming the bytes. Large blocks may be committed only when touched.
  virtual Result<Buffer> Allocate(size_t bytes) = 0;
  /// Gives back what Allocate or Reserve gave.
  void Free(void* data, size_t bytes) override = 0;
  virtual void CopyToDevice(void* device, const void* host, size_t bytes) = 0;
  virtual void CopyToHost(void* host, const void* device, size_t bytes) = 0;
  /// Returns when everything issued before has been done, copies of slabs apart.
  virtual void Synchronize() = 0;
  /// Sends what was issued so far on its way; what is issued before the next Submit belongs to the same submission.
  virtual void Flush() {}
  /// Sends everything issued so far on its way, if possible without waiting for it; returns a number to wait for, never
  /// 0. At most two submissions are under way: a third waits for the first. Synchronize submits, too.
  virtual uint64_t Submit() {
    Synchronize();
    return 1;
  }
  /// Returns when everything issued before that Submit has been done.
  virtual void WaitFor(uint64_t submission) { (void)submission; }
  /// Whether Submit returns before the work is done, so that there is something to be gained.
  virtual bool runs_ahead() const { return false; }
  /// The element type in which operations hand activations to one another: queries, norms, MLP inputs. The residual
  /// stream and logits are kF32 everywhere.
  virtual DType activation_dtype() const { return DType::kF32; }
  /// About so many rows keep the device as busy as more do: fewer take as long as one, as all weights are read for it.
  virtual int64_t busy_rows() const { return 16; }
  /// The element type of linear layers' weights, where a device has one for all files; otherwise activation_dtype().
  virtual DType weight_dtype() const { return activation_dtype(); }

  // ---- weights ----------------------------------------------------------------------------------------------------
  /// Takes a matrix from its file format to the device's own (interleaved, still quantised). kInvalidArgument if the
  /// shape does not fit the format (cols must be a multiple of the quantisation block).
  virtual Result<Weight> LoadWeight(const HostTensor& host) = 0;
  /// The same for a matrix that is made up, where it is to be if the device can make it. kOverloaded without room.
  virtual Result<Weight> MakeRandomWeight(const RandomMatrix& matrix) {
    const std::vector<float> values = RandomValues(matrix);
    return LoadWeight({DType::kF32, matrix.row_count(), matrix.cols, std::as_bytes(std::span(values)), matrix.table});
  }
  /// What Experts needs on the device of a layer's experts, once for all calls. kInvalidArgument if it does not compute
  /// experts of these sizes or types.
  virtual Result<Buffer> PlaceExperts(std::span<const Expert> experts) {
    (void)experts;
    return Buffer();
  }
  /// What AddLowRank needs on the device of what each adapter has for one input, once for all calls. kOverloaded
  /// without room.
  virtual Result<Buffer> PlaceLowRank(std::span<const std::span<const LowRank>> adapters) {
    (void)adapters;
    return Buffer();
  }

  // ---- operations -------------------------------------------------------------------------------------------------
  /// y[r] = table row ids[r] times `scale`, as float; ids are host memory, all < table.rows, or AwaitedToken
  /// (kernels/awaited_token.h) of the last submission with ChooseTokens or ChooseHighest. y [T, D].
  virtual void Embed(const Weight& table, std::span<const int32_t> ids, float scale, Tensor y) = 0;
  /// y[r] += table row positions[r]: learned positions (GPT-2). Positions are host memory, all < table.rows.
  virtual void AddPositions(const Weight& table, std::span<const int64_t> positions, Tensor y) = 0;
  /// y = x / sqrt(mean(x^2) + eps) * weight, over each row (Zhang and Sennrich 2019). x, y [T, D], may be the same.
  virtual void RmsNorm(Tensor x, const float* weight, float eps, Tensor y) = 0;
  /// RmsNorm of each of `heads` runs of d values in every row of x [T, heads * d], in place: Qwen3's q and k norm.
  virtual void RmsNormHeads(Tensor x, int64_t heads, const float* weight, float eps) = 0;
  /// y = (x - mean) / sqrt(var + eps) * weight + bias, over each row (Ba et al. 2016).
  virtual void LayerNorm(Tensor x, const float* weight, const float* bias, float eps, Tensor y) = 0;
  /// y (+)= x W^T + bias for one or more matrices of the same input. Quantised weights: x is rounded to int8 per block
  /// of 32 (scale = largest magnitude / 127), integer dot products, one multiply-add per block in block order.
  virtual void Linear(const LinearArgs& args) = 0;
  /// y += what the rows' adapters add to a Linear of x; rows without one stay as they are.
  virtual void AddLowRank(const LowRankArgs& args);
  /// Rotates and stores every row's key and value in its sequence's cache, then attends: out = softmax(s(q, K)) V, with
  /// s of kernels/score_traits.h, over pinned positions [0, S) and ring positions [first_live, t], one softmax over
  /// both, grouped heads (Ainslie et al. 2023) sharing keys. Rows are written before any is read.
  virtual void Attention(const AttentionArgs& args) = 0;
  /// y = activation(gate) * up; x [T, 2n] holds gate then up, and nothing defined afterwards; y [T, n] (Shazeer 2020).
  virtual void MultiplyActivated(Tensor x, Activation activation, Tensor y) = 0;
  /// x = activation(x), in place.
  virtual void Activate(Tensor x, Activation activation) = 0;
  /// y += the experts' MLPs of x, those that each row takes, times their weights (Shazeer et al. 2017); those of a row
  /// in the order of the experts. An expert's MLP is Linear, MultiplyActivated, Linear.
  virtual void Experts(const ExpertsArgs& args) = 0;
  /// y += x. x, y [T, D] kF32.
  virtual void Add(Tensor x, Tensor y) = 0;
  /// x = cap * tanh(x / cap), in place: logits. x [T, n] kF32.
  virtual void SoftCap(Tensor x, float cap) = 0;
  /// y[i] = x[rows[i]]: picks the rows whose logits are wanted. rows is host memory.
  virtual void GatherRows(Tensor x, std::span<const int64_t> rows, Tensor y) = 0;
  /// chosen[r] = the token that choices[r] chooses from row r of `logits` [rows, V] (kF32), which are changed; all by
  /// the definition in kernels/token_choice.h. What goes wrong with a row is said in its outcome and touches no other.
  /// `chosen` is host memory and holds the tokens after Synchronize.
  virtual void ChooseTokens(Tensor logits, std::span<const TokenChoice> choices, std::span<ChosenToken> chosen) = 0;

  // ---- operations of a rank that shares a network with others, in step with theirs (kernels/ranks/comm.h) ---------
  /// y += the sum of all ranks' x, taken in the order of the ranks, on a GPU perhaps in NCCL's instead
  /// (CudaBackendOptions::all_reduce): all get the same bits. x, y [T, D] kF32, x without
  /// gaps; what it holds afterwards is not known.
  virtual void AddAllRanks(Tensor x, Tensor y) = 0;
  /// Every rank has computed some columns of x (kF32), rank r those of [borders[r], borders[r + 1]); afterwards all
  /// have all.
  virtual void GatherColumns(Tensor x, std::span<const int64_t> borders) = 0;
  /// x (kF32, without gaps) to the rank in its place in the next stage, which receives it, in the order of the calls.
  virtual void SendRows(Tensor x) = 0;
  virtual void ReceiveRows(Tensor x) = 0;
  /// Tokens of the last submission with ChooseTokens, the first `count`, from the last stage to the first, where Embed
  /// finds them as if that had chosen them.
  virtual void SendChosen(size_t count) = 0;
  virtual void ReceiveChosen(size_t count) = 0;
  /// chosen[r] = the token of row r that has the highest logit in all ranks' columns, of which `logits` (kF32) are this
  /// rank's, from token `first` on: what ChooseTokens would choose by greedy choices that ask for nothing else. The
  /// ranks tell each other their best alone. All ranks choose the same, and stand in for ChooseTokens to Embed.
  virtual void ChooseHighest(Tensor logits, int64_t first, std::span<ChosenToken> chosen) = 0;
};

/// kInvalidArgument if this machine lacks the instruction set asked for. `comms`: of the ranks, if this is one.
Result<std::unique_ptr<Backend>> MakeCpuBackend(const CpuBackendOptions& options, RankComms comms = {});
/// kUnavailable if this program was built without CUDA or the machine has no such device; kOverloaded, naming the
/// bytes, if the memory is not to be had; kInvalidArgument for another dtype. With `comms`, all ranks are made at one
/// time, each by its thread; kUnavailable, too, if there is no way between their devices, or not the one asked for:
/// peer memory within a process, or NCCL.
Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions& options, RankComms comms = {});
/// 0, too, without CUDA.
int CountCudaDevices();
/// What this machine can run, slowest first.
std::span<const std::string_view> CpuInstructionSets();

}  // namespace ringside
