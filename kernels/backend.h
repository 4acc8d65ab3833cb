// The device interface: memory, copies and the coarse-grained operations of a decoder network. There is one
// implementation per kind of device (kernels/cpu is the reference).
// THREAD: one, the engine's; a backend may use more internally.
//
// Determinism. On the CPU every operation computes a row by the same operations in the same order whatever else is in
// the call: 1 row or 512, 1 thread or many, any instruction set. So a row's bits depend on nothing but the row. On CUDA
// the order may depend on the number of rows, and results are equal only within a tolerance, unless
// CudaBackendOptions::deterministic is set.
//
// Asynchrony. A backend may defer operations and run them together: results are available after Synchronize, or after
// WaitFor on their submission. Host memory passed to an operation (ids, segments, angles) is read before it returns;
// host memory of a copy must stay valid until then. Slabs are copied to the host and back concurrently with operations
// (SaveSlab, LoadSlab).
//
// Failure. A device failure is permanent: status() reports it, and later results are undefined.
//
// Notation: T rows (tokens) of a step, D hidden size, H query heads, G key/value heads, d head size, n outputs, k
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
#include "kernels/recurrence.h"
#include "kernels/rope_pairs.h"
#include "kernels/router_traits.h"
#include "kernels/row_sampling_params.h"
#include "kernels/score_traits.h"
#include "kernels/slab_memory.h"
#include "kernels/tensor.h"

namespace ringside {

/// Cosine and sine of position * inverse frequency, computed in float64 and rounded: [T, rotary / 2] each, on the host
/// (RoFormer, Su et al. 2021). `own` uses the row's own position t; it rotates the row's key, and its query against
/// ring keys. `pinned` uses c = S + t - first_live(t) and rotates the query against pinned keys (StreamingLLM, Xiao et
/// al. 2023: the distance to a pinned key is its distance in the cache). If nothing is evicted c = t and both are
/// equal.
struct RopeAngles {
  const float* own_cos = nullptr;
  const float* own_sin = nullptr;
  const float* pinned_cos = nullptr;
  const float* pinned_sin = nullptr;
};

/// Consecutive rows of a step that belong to one sequence.
struct AttentionSegment {
  /// The newest position that row r sees.
  int64_t LastSeen(int64_t r) const { return last_seen != nullptr ? last_seen[r] : position + r; }

  int64_t first_row = 0;  // in the step
  int64_t rows = 0;
  int64_t position = 0;                 // of the first row's token; row r is at position + r
  int64_t pinned = 0;                   // S: positions below it are never evicted
  const int64_t* first_live = nullptr;  // [rows], host: oldest ring position that row r sees (>= S)
  void* slab = nullptr;                 // the sequence's cache, in the layout of KvShape
  // For a branch (KvCache::BranchOff) the slab stores only positions from `branch` on, starting at its beginning;
  // earlier positions are read from `history`, where they are at their usual places. `branch` is S or a tile boundary
  // of the ring. null: the slab has all positions.
  const void* history = nullptr;
  int64_t branch = 0;
  // Recurrent state. `state_slot` has the boundary BoundaryBefore(position); -1: that is position 0, a state of zeros.
  int state_slot = -1;
  // Boundaries after `position`, up to position + rows, to store: ascending, at least the last one; host memory.
  std::span<const StateWrite> state_writes;
  // Shared prefix. Positions [0, prefix_end) have the same keys and values in this slab as elsewhere: S <= prefix_end
  // <= position. Every row of the segment sees all of them, in a layer without a window. Segments with the same
  // `prefix` and `prefix_end` form a group, with the same S, and a backend may read these positions once for all of its
  // rows. null: none.
  const void* prefix = nullptr;
  int64_t prefix_end = 0;
  // [rows], host: newest position that row r sees, one of this segment's: its own, or a later one where rows see each
  // other in both directions. Ascending; on the same side of S as the row. Windows do not apply to later positions.
  // null: its own.
  const int64_t* last_seen = nullptr;
};

struct AttentionArgs {
  // [T, (H + 2G) d]: queries, keys, values, not rotated; [T, (H + G) d] if values are a part of the keys
  // (KvShape::latent_dim); [T, H d] for rows with queries alone
  Tensor qkv;
  Tensor out;         // [T, H v], v: dimensions of a value
  int64_t layer = 0;  // of the shape
  KvShape shape;      // with G and d of the layer's keys
  int64_t heads = 0;  // H, a multiple of G; 0: only stores keys and values
  // Keys and values of these rows are already in the cache, stored by an earlier call for the layer: qkv has queries
  // alone.
  bool stored = false;
  int64_t rotary = 0;        // rotated dimensions of a head, even, <= d
  int64_t first_rotary = 0;  // the first rotated dimension
  RopePairs pairs = RopePairs::kNone;
  RopeAngles angles;
  ScoreTraits scores;
  const float* query_weights = nullptr;  // [d] on the device: factors of a rotated query's dimensions, or null
  const float* query_scales = nullptr;   // [T] on the host: factors of the rows' scores, or null
  VisibleKeys seen = VisibleKeys::kBefore;
  std::span<const AttentionSegment> segments;
  // Calls with the same nonzero number since the last Synchronize have equal segments, and equal angles if at the same
  // address; a backend may upload them once for all layers.
  uint64_t step = 0;
};

struct LinearArgs {
  Tensor x;                                // [T, k]
  std::span<const Weight* const> weights;  // each [n_i, k]; their outputs are concatenated in this order
  const float* bias = nullptr;             // [sum n_i] on the device, or null
  Tensor y;                                // [T, sum n_i]
  bool accumulate = false;                 // y += instead of y =: the residual stream
  const void* rounded_bias = nullptr;      // the bias also in weight_dtype(), or null; GEMMs may use it instead
};

/// One expert of a mixture-of-experts layer.
struct Expert {
  std::span<const Weight> in;       // gate and up, or both in one matrix: [2F, D] in total; or up alone, [F, D]
  const float* in_bias = nullptr;   // [2F] on the device, or null
  const Weight* out = nullptr;      // [D, F]
  const float* out_bias = nullptr;  // [D]
};

struct ExpertsArgs {
  Tensor x;       // [T, D]
  Tensor router;  // [T, number of experts], kF32: router logits
  std::span<const Expert> experts;
  const void* packed = nullptr;  // result of PackExperts for these experts
  int64_t top_k = 0;             // experts per row: those with the highest logits, ties to the lower index
  bool normalised = false;  // weights are a softmax over the selected experts instead of over all, so they sum to 1
  bool shared = false;      // the last expert is also used by all rows, weighted by the sigmoid of its logit
  RouterTraits traits;
  Activation activation = Activation::kSilu;
  Tensor y;                // [T, D]
  bool accumulate = true;  // y += instead of y =
};

/// A matrix per head: y_h = x_h W_h^T, where W_h is rows [h n, (h + 1) n) of the weight.
struct HeadsArgs {
  Tensor x;                        // [T, H (k + c)]: k inputs and c carried columns per head
  const Weight* weight = nullptr;  // [H n, k], n a multiple of 16
  int64_t heads = 0;               // H
  int64_t carried = 0;             // c: columns after a head's inputs, copied after its outputs
  Tensor y;                        // [T, H (n + c)]; does not overlap x
};

class Backend : public SlabMemory {
 public:
  // ---- memory; sizes in bytes -----------------------------------------------------------------------------------
  /// Zeroed device memory. Large blocks may be committed only when touched.
  /// ERRORS: kOverloaded, naming the bytes, if memory is exhausted.
  virtual Result<Buffer> Allocate(size_t bytes) = 0;
  /// Frees memory of Allocate or Reserve.
  void Free(void* data, size_t bytes) override = 0;
  virtual void CopyToDevice(void* device, const void* host, size_t bytes) = 0;
  virtual void CopyToHost(void* host, const void* device, size_t bytes) = 0;
  /// Blocks until everything issued before is done, except slab copies.
  virtual void Synchronize() = 0;
  /// Starts the operations issued so far; later ones until the next Submit still belong to the same submission.
  virtual void Flush() {}
  /// Starts everything issued so far, if possible without waiting for it; returns a nonzero number for WaitFor. At most
  /// two submissions are in flight: a third waits for the first. Synchronize also submits.
  virtual uint64_t Submit() {
    Synchronize();
    return 1;
  }
  /// Blocks until everything issued before that Submit is done.
  virtual void WaitFor(uint64_t submission) { (void)submission; }
  /// Whether Submit returns before the work is done, so that asynchronous scheduling pays off.
  virtual bool runs_ahead() const { return false; }
  /// Element type of activations between operations: queries, norms, MLP inputs. The residual stream and logits are
  /// always kF32.
  virtual DType activation_dtype() const { return DType::kF32; }
  /// Approximate number of rows that saturates the device. Fewer rows take as long as one, because all weights are
  /// read.
  virtual int64_t saturating_rows() const { return 16; }
  /// Element type of linear layers' weights if the device uses a single one for all files, otherwise
  /// activation_dtype().
  virtual DType weight_dtype() const { return activation_dtype(); }

  /// Whether GEMMs with kF8E4M3 weights round the activations to E4M3.
  virtual bool multiplies_in_e4m3() const { return false; }

  // ---- weights ----------------------------------------------------------------------------------------------------
  /// Converts a matrix from its file format to the device's own (interleaved, still quantized).
  /// ERRORS: kInvalidArgument if the shape does not fit the format (cols must be a multiple of the quantization block).
  virtual Result<Weight> LoadWeight(const HostTensor& host) = 0;
  /// As LoadWeight for a random matrix, generated on the device if it can. ERRORS: kOverloaded if memory is exhausted.
  virtual Result<Weight> MakeRandomWeight(const RandomMatrix& matrix) {
    HostTensor host{DType::kF32, matrix.row_count(), matrix.cols, {}, matrix.table, matrix.expert};
    if (matrix.in_e4m3()) {
      const std::vector<std::byte> blocks = RandomE4M3Blocks(matrix);
      host.dtype = matrix.file, host.bytes = blocks;
      return LoadWeight(host);
    }
    const std::vector<float> values = RandomValues(matrix);
    host.bytes = std::as_bytes(std::span(values));
    return LoadWeight(host);
  }
  /// Packs a layer's experts on the device for Experts, once for all calls.
  /// ERRORS: kInvalidArgument if the device does not support these sizes or types.
  virtual Result<Buffer> PackExperts(std::span<const Expert> experts) {
    (void)experts;
    return Buffer();
  }
  /// Packs each adapter's matrices for one input on the device for AddLowRank, once for all calls.
  /// ERRORS: kOverloaded if memory is exhausted.
  virtual Result<Buffer> PackLowRank(std::span<const std::span<const LowRank>> adapters) {
    (void)adapters;
    return Buffer();
  }

  // ---- operations -------------------------------------------------------------------------------------------------
  /// y[r] = table row ids[r] times `scale`, as float. y [T, D]. ids are in host memory; each is < table.rows, or an
  /// DeferredToken (kernels/deferred_token.h) of the last submission with SampleTokens or SampleGreedy.
  virtual void Embed(const Weight& table, std::span<const int32_t> ids, float scale, Tensor y) = 0;
  /// y[r] += table row positions[r]: learned positions (GPT-2). Positions are host memory, all < table.rows.
  virtual void AddPositions(const Weight& table, std::span<const int64_t> positions, Tensor y) = 0;
  /// y = x / sqrt(mean(x^2) + eps) * weight, over each row (Zhang and Sennrich 2019). x, y [T, D] may be the same.
  virtual void RmsNorm(Tensor x, const float* weight, float eps, Tensor y) = 0;
  /// RmsNorm of each of `heads` heads of d values in every row of x [T, heads * d], in place: Qwen3's Q and K norm.
  virtual void RmsNormHeads(Tensor x, int64_t heads, const float* weight, float eps) = 0;
  /// y = (x - mean) / sqrt(var + eps) * weight + bias, over each row (Ba et al. 2016).
  virtual void LayerNorm(Tensor x, const float* weight, const float* bias, float eps, Tensor y) = 0;
  /// y (+)= x W^T + bias for one or more matrices with the same input. With quantized weights x is rounded to int8 per
  /// block of 32 (scale = largest magnitude / 127): integer dot products, one multiply-add per block, in block order.
  virtual void Linear(const LinearArgs& args) = 0;
  /// As Linear, with a matrix for each head.
  virtual void LinearHeads(const HeadsArgs& args) = 0;
  /// y += the low-rank updates of the rows' adapters to a Linear of x; rows without an adapter are unchanged.
  virtual void AddLowRank(const LowRankArgs& args);
  /// Rotates and stores every row's key and value in its sequence's cache, then attends: out = softmax(s(q, K)) V, with
  /// s of kernels/score_traits.h. Keys are the pinned positions [0, S) and the ring positions [first_live, t], under
  /// one softmax; groups of heads share keys (Ainslie et al. 2023). All rows are written before any is read.
  virtual void Attention(const AttentionArgs& args) = 0;
  /// y = activation(gate) * up (Shazeer 2020); x [T, 2n] holds gate then up and is clobbered; y [T, n].
  virtual void MultiplyActivated(Tensor x, Activation activation, Tensor y) = 0;
  /// x = activation(x), in place.
  virtual void Activate(Tensor x, Activation activation) = 0;
  /// x = xIELU(x), in place.
  virtual void Xielu(Tensor x, const XieluParameters& parameters) = 0;
  /// x = x * factors, column by column, in place. factors: [n] on the device.
  virtual void ScaleColumns(Tensor x, const float* factors) = 0;
  /// y += x * factors, row by row. x, y [T, n]; factors [T, 1].
  virtual void AddScaledRows(Tensor x, Tensor factors, Tensor y) = 0;
  /// Scales each row of x, in place, to the root mean square of the row of `like`: x * rms(like) / rms(x), where rms(x)
  /// is at least sqrt(1e-5).
  virtual void MatchMagnitude(Tensor like, Tensor x) = 0;
  /// x = max(0, x - (mean + deviations * standard deviation)) of each row, in place (Gemma 3n).
  virtual void Sparsify(Tensor x, float deviations) = 0;
  /// x = x * factor, in place.
  virtual void Scale(Tensor x, float factor) = 0;
  /// y = y * f(gate), element by element. gate, y [T, n]; or gate [T, n / m], with a value for each m columns of y.
  virtual void Gate(Tensor gate, GateKind kind, Tensor y) = 0;
  /// A recurrent mixer (kernels/recurrence.h): reads each segment's boundary state and tail, appends its rows to the
  /// tail, stores the boundaries of AttentionSegment::state_writes. The tail afterwards has the rows from the last
  /// boundary before the segment's last row on.
  virtual void Recur(const RecurrenceArgs& args) = 0;
  /// y += or = the weighted sum of the MLPs of each row's selected experts, in expert order (Shazeer et al. 2017). An
  /// expert's MLP is Linear, MultiplyActivated (Activate without a gate), Linear.
  virtual void Experts(const ExpertsArgs& args) = 0;
  /// y += x. x, y [T, D], y kF32; x kF32 or of activation_dtype().
  virtual void Add(Tensor x, Tensor y) = 0;
  /// x = cap * tanh(x / cap), in place: logits. x [T, n] kF32.
  virtual void SoftCap(Tensor x, float cap) = 0;
  /// y[i] = x[rows[i]]: selects the rows whose logits are needed. `rows` is host memory.
  virtual void GatherRows(Tensor x, std::span<const int64_t> rows, Tensor y) = 0;
  /// sampled[r] = the token sampled with row_params[r] from row r of `logits` [rows, V] (kF32), which is modified;
  /// defined in kernels/row_sampling_params.h. An error in a row is reported in its outcome and affects no other row.
  /// `sampled` is host memory and valid after Synchronize.
  virtual void SampleTokens(Tensor logits, std::span<const RowSamplingParams> row_params,
                            std::span<SampledToken> sampled) = 0;

  // ---- collectives of tensor- and pipeline-parallel ranks; every rank makes the same calls (kernels/ranks/comm.h) --
  /// All-reduce: y += the sum of all ranks' x, in rank order, or on a GPU in NCCL's order
  /// (CudaBackendOptions::all_reduce). All ranks get the same bits. x, y [T, D] kF32; x is contiguous and clobbered.
  virtual void AllReduceAdd(Tensor x, Tensor y) = 0;
  /// All-reduce in place: x = the sum of all ranks' x, as AllReduceAdd.
  virtual void AllReduceInPlace(Tensor x) = 0;
  /// RmsNorm in place, of rows whose `columns` columns are divided among the ranks: x [T, n] has this rank's ones.
  /// `counts`: false if another rank has them, too, and contributes them to the mean.
  virtual void RmsNormOfRanks(Tensor x, int64_t columns, bool counts, const float* weight, float eps) = 0;
  /// All-gather: rank r has computed columns [borders[r], borders[r + 1]) of x (kF32); afterwards every rank has all.
  virtual void AllGatherColumns(Tensor x, std::span<const int64_t> borders) = 0;
  /// Sends x (kF32, contiguous) to this rank's counterpart in the next pipeline stage, which receives the matrices in
  /// call order.
  virtual void SendRows(Tensor x) = 0;
  virtual void ReceiveRows(Tensor x) = 0;
  /// Sends the first `count` tokens sampled by the last submission from the last pipeline stage to the first, so that
  /// Embed there can consume them.
  virtual void SendSampledTokens(size_t count) = 0;
  virtual void ReceiveSampledTokens(size_t count) = 0;
  /// Distributed greedy sampling: sampled[r] = the token of row r with the highest logit in all ranks' columns.
  /// `logits` (kF32) has this rank's columns, from token `first` on. Equals SampleTokens with greedy parameters and
  /// nothing else. Ranks exchange only their best candidates. All ranks return the same tokens, which Embed accepts as
  /// those of SampleTokens.
  virtual void SampleGreedy(Tensor logits, int64_t first, std::span<SampledToken> sampled) = 0;
};

/// `comms` connects the ranks, if this is one. ERRORS: kInvalidArgument if this machine lacks the requested instruction
/// set.
Result<std::unique_ptr<Backend>> MakeCpuBackend(const CpuBackendOptions& options, RankComms comms = {});
/// With `comms` the ranks must be made concurrently, each by its own thread.
/// ERRORS: kUnavailable if this program was built without CUDA, the machine has no such device, or the devices cannot
/// communicate, or not by the algorithm asked for (peer memory, or NCCL); kOverloaded, naming the bytes, if the memory
/// is not available; kInvalidArgument for an unsupported dtype.
Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions& options, RankComms comms = {});
/// 0 without CUDA.
int CountCudaDevices();
/// The instruction sets that this machine supports, slowest first.
std::span<const std::string_view> CpuInstructionSets();

}  // namespace ringside
