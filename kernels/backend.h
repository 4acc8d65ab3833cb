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
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "kernels/backend_options.h"
#include "kernels/kv_shape.h"
#include "kernels/rope_pairs.h"
#include "kernels/slab_run.h"
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
};

struct AttentionArgs {
  Tensor qkv;  // [T, (H + 2G) d]: queries, keys, values, none rotated
  Tensor out;  // [T, H d]
  int64_t layer = 0;
  KvShape shape;       // G and d of it are the keys'
  int64_t heads = 0;   // H, a multiple of G
  int64_t rotary = 0;  // rotated dimensions of a head, even, <= d
  RopePairs pairs = RopePairs::kNone;
  RopeAngles angles;
  float scale = 0;  // of q . k, usually 1 / sqrt(d)
  std::span<const AttentionSegment> segments;
  // Calls with one number that is not 0 promise equal segments and angles, back to the last Synchronize: a backend may
  // take them to the device once for all layers.
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

class Backend {
 public:
  virtual ~Backend() = default;

  /// Selects this backend's device for the calling thread: once before its first other call, and again where the thread
  /// has called, or made, another backend meanwhile. Whoever makes a backend may call it at once.
  virtual void UseOnThisThread() {}

  // ---- memory; sizes in bytes -----------------------------------------------------------------------------------
  /// Zeroed device memory, or kOverloaded naming the bytes. Large blocks may be committed only when touched.
  virtual Result<Buffer> Allocate(size_t bytes) = 0;
  virtual void Free(void* data, size_t bytes) = 0;
  virtual void CopyToDevice(void* device, const void* host, size_t bytes) = 0;
  virtual void CopyToHost(void* host, const void* device, size_t bytes) = 0;
  /// From or to the beginning of a slab: after copies of that one to and from the host.
  virtual void CopyOnDevice(void* to, const void* from, size_t bytes) = 0;
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
  /// The element type of linear layers' weights, where a device has one for all files; otherwise activation_dtype().
  virtual DType weight_dtype() const { return activation_dtype(); }
  /// "avx512_vnni, 2 threads": for the log.
  virtual std::string Describe() const = 0;
  /// Bytes that Allocate, or Commit, still has; nullopt where nobody knows.
  virtual std::optional<size_t> free_bytes() const { return std::nullopt; }
  /// kUnavailable from the first failure of the device on, naming it. Any thread.
  virtual Status status() const { return Status::Ok(); }

  // ---- address ranges whose memory comes and goes page by page -----------------------------------------------------
  /// The size of the pages of a slab of so many bytes.
  virtual int64_t page_bytes(int64_t slab_bytes) const = 0;
  /// Addresses without memory, for slabs one behind the other; kOverloaded, naming the bytes. What has no memory must
  /// not be touched.
  virtual Result<Buffer> Reserve(size_t bytes) = 0;
  /// Gives whole pages of such a range memory, which may hold anything. What is issued from now on may use it, whether
  /// it is there already or on its way. kOverloaded, and nothing changed, if there is none left.
  virtual Status Commit(void* data, size_t bytes) = 0;
  /// Takes it away again: what was issued before may still use it, nothing later.
  virtual void Decommit(void* data, size_t bytes) = 0;

  // ---- slabs, in the layout of KvShape, to the host and back -------------------------------------------------------
  /// Begins to copy the runs, in order, beside the operations. The copies see what was issued before; Attention on this
  /// slab that is issued later waits for them, layer by layer, by itself. The host memory must stay until CopyDone.
  /// Loads end in the order of their calls, and so do saves.
  virtual CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) = 0;
  virtual CopyTicket LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) = 0;
  /// Never blocks.
  virtual bool CopyDone(CopyTicket) { return true; }
  virtual void WaitForCopy(CopyTicket) {}
  /// About how many bytes a piece of a slab should have that is copied by itself: the least that is copied at the full
  /// rate.
  virtual int64_t slab_piece_bytes() const { return int64_t{1} << 20; }
  /// Makes host memory fit for the fastest copies to and from slabs, for as long as the process lives. False: there is
  /// nothing to gain, or no more to be had. Any thread.
  virtual bool PinHost(void* /*data*/, size_t /*bytes*/) { return false; }

  // ---- weights ----------------------------------------------------------------------------------------------------
  /// Takes a matrix from its file format to the device's own (interleaved, still quantised). kInvalidArgument if the
  /// shape does not fit the format (cols must be a multiple of the quantisation block).
  virtual Result<Weight> LoadWeight(const HostTensor& host) = 0;

  // ---- operations -------------------------------------------------------------------------------------------------
  /// y[r] = table row ids[r], as float; ids are host memory, all < table.rows, or AwaitedToken
  /// (kernels/awaited_token.h) of the last submission with ChooseTokens. y [T, D].
  virtual void Embed(const Weight& table, std::span<const int32_t> ids, Tensor y) = 0;
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
  /// Rotates and stores every row's key and value in its sequence's cache, then attends: out = softmax(scale q K^T) V
  /// over pinned positions [0, S) and ring positions [first_live, t], one softmax over both, grouped heads
  /// (Ainslie et al. 2023) sharing keys. Rows are written before any is read.
  virtual void Attention(const AttentionArgs& args) = 0;
  /// y = silu(gate) * up, where x [T, 2n] holds gate then up and y is [T, n] (SwiGLU, Shazeer 2020).
  virtual void SiluMultiply(Tensor x, Tensor y) = 0;
  /// x = gelu(x), tanh approximation or exact erf (Hendrycks and Gimpel 2016), in place.
  virtual void Gelu(Tensor x, bool tanh_approximation) = 0;
  /// y[i] = x[rows[i]]: picks the rows whose logits are wanted. rows is host memory.
  virtual void GatherRows(Tensor x, std::span<const int64_t> rows, Tensor y) = 0;
  /// chosen[r] = the token that choices[r] chooses from row r of `logits` [rows, V] (kF32), which are changed; all by
  /// the definition in kernels/token_choice.h. What goes wrong with a row is said in its outcome and touches no other.
  /// `chosen` is host memory and holds the tokens after Synchronize.
  virtual void ChooseTokens(Tensor logits, std::span<const TokenChoice> choices, std::span<ChosenToken> chosen) = 0;
};

/// kInvalidArgument if this machine lacks the instruction set asked for.
Result<std::unique_ptr<Backend>> MakeCpuBackend(const CpuBackendOptions& options);
/// kUnavailable if this program was built without CUDA or the machine has no such device; kOverloaded, naming the
/// bytes, if the memory is not to be had; kInvalidArgument for another dtype.
Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions& options);
/// What this machine can run, slowest first.
std::span<const std::string_view> CpuInstructionSets();

}  // namespace ringside
