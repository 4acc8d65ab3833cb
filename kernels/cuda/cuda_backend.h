// The CUDA backend. It checks arguments, stages host data in device memory and records operations; recorded operations
// run together when a result is needed (Synchronize, copies). From the second step of a given shape on they run as one
// CUDA graph. Prefill steps with an unusual row count are launched eagerly: a captured graph would rarely be replayed.
// The backend knows nothing of models or conversations.
// THREAD: one thread at a time; each calls MakeCurrent first.
#pragma once

#include <cuda_runtime_api.h>

#include <cstring>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/memory/device_memory.h"
#include "kernels/cuda/ranks/rank_exchange.h"
#include "kernels/cuda/ranks/stage_exchange.h"
#include "kernels/cuda/slab_copies.h"
#include "kernels/cuda/steps/graph_cache.h"
#include "kernels/cuda/steps/step_runner.h"
#include "kernels/cuda/steps/submission.h"

namespace ringside::cuda {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaBackendOptions& options) : options_(options) {}
  ~CudaBackend() override;
  /// `comms` connects this rank to the others of its group; all ranks must call Start concurrently.
  Status Start(RankComms comms);

  void MakeCurrent() override;
  Result<Buffer> Allocate(size_t bytes) override;
  void Free(void* data, size_t bytes) override;
  int64_t page_bytes(int64_t /*slab_bytes*/) const override { return static_cast<int64_t>(memory_.page_bytes()); }
  Result<Buffer> Reserve(size_t bytes) override;
  Status Commit(void* data, size_t bytes) override;
  bool Committed(const void* data, size_t bytes, int64_t timeout_us) override;
  void Decommit(void* data, size_t bytes) override;
  void CopyToDevice(void* device, const void* host, size_t bytes) override;
  void CopyToHost(void* host, const void* device, size_t bytes) override;
  void CopyOnDevice(void* to, const void* from, size_t bytes) override;
  void Synchronize() override;
  void Flush() override;
  uint64_t Submit() override;
  void WaitFor(uint64_t submission) override;
  bool runs_ahead() const override { return true; }
  int64_t saturating_rows() const override { return 128; }
  DType activation_dtype() const override { return options_.dtype; }
  DType weight_dtype() const override { return options_.quantization.value_or(options_.dtype); }
  std::string Describe() const override;
  std::optional<size_t> free_bytes() const override { return memory_.free_bytes(); }
  Status status() const override;
  CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) override;
  CopyTicket LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) override;
  bool CopyDone(CopyTicket ticket) override { return slab_copies_.Done(ticket); }
  void WaitForCopy(CopyTicket ticket) override;
  int64_t slab_chunk_bytes() const override { return int64_t{8} << 20; }  // the link is at full rate from 2 MiB a call
  bool PinHost(void* data, size_t bytes) override;
  Result<Weight> LoadWeight(const HostTensor& host) override;
  Result<Weight> MakeRandomWeight(const RandomMatrix& matrix) override;
  Result<Buffer> PackExperts(std::span<const Expert> experts) override;
  Result<Buffer> PackLowRank(std::span<const std::span<const LowRank>> adapters) override;

  void Embed(const Weight& table, std::span<const int32_t> ids, float scale, Tensor y) override;
  void AddPositions(const Weight& table, std::span<const int64_t> positions, Tensor y) override;
  void RmsNorm(Tensor x, const float* weight, float eps, Tensor y) override;
  void RmsNormHeads(Tensor x, int64_t heads, const float* weight, float eps) override;
  void LayerNorm(Tensor x, const float* weight, const float* bias, float eps, Tensor y) override;
  void Linear(const LinearArgs& args) override;
  void AddLowRank(const LowRankArgs& args) override;
  void Attention(const AttentionArgs& args) override;
  void MultiplyActivated(Tensor x, Activation activation, Tensor y) override;
  void Activate(Tensor x, Activation activation) override;
  void Experts(const ExpertsArgs& args) override;
  void Add(Tensor x, Tensor y) override;
  void SoftCap(Tensor x, float cap) override;
  void GatherRows(Tensor x, std::span<const int64_t> rows, Tensor y) override;
  void SampleTokens(Tensor logits, std::span<const RowSamplingParams> row_params,
                    std::span<SampledToken> sampled) override;
  void AllReduceAdd(Tensor x, Tensor y) override;
  void AllGatherColumns(Tensor x, std::span<const int64_t> borders) override;
  void SendRows(Tensor x) override { TransferRows(OpKind::kSend, x); }
  void ReceiveRows(Tensor x) override { TransferRows(OpKind::kReceive, x); }
  void SendSampledTokens(size_t count) override { TransferRows(OpKind::kSend, SampledIds(count)); }
  void ReceiveSampledTokens(size_t count) override { TransferRows(OpKind::kReceive, SampledIds(count)); }
  void SampleGreedy(Tensor logits, int64_t first, std::span<SampledToken> sampled) override;

 private:
  /// The properties by which layers share one staged attention plan.
  struct PlanKey {
    int64_t tile_heads = 0;
    int64_t window = 0;   // 0: no key is masked by a window
    bool traits = false;  // soft cap, slopes, sinks or biases are used, or the rows are an encoder's
    VisibleKeys seen = VisibleKeys::kBefore;
    const float* angles = nullptr;  // own_cos on the host; null: no rotation
    friend bool operator==(const PlanKey&, const PlanKey&) = default;
  };
  /// Attention plans staged for the current step.
  struct StagedStep {
    uint64_t step = 0;     // 0: none
    int64_t farthest = 0;  // farthest key that any row sees, windows ignored
    std::vector<std::pair<PlanKey, AttentionPlan>> plans;
  };

  /// The staged mapping from the rows of a step to their adapters.
  struct AdapterStep {
    uint64_t step = 0;  // 0: none
    const AdapterTile* tiles = nullptr;
    int64_t count = 0;
  };

  /// Allocates a matrix of options_.dtype.
  Result<Weight> AllocateFloatWeight(int64_t rows, int64_t cols);
  /// Allocates a matrix of `bytes` bytes with `scales` scales.
  Result<Weight> AllocateScaledWeight(DType dtype, int64_t rows, int64_t cols, size_t bytes, size_t scales);
  std::byte* AllocateScales(size_t count);
  /// Loads a matrix as kI8 or kF8E4M3, one byte an element: quantized to it, or unchanged if the file has that type.
  Result<Weight> LoadBytes(const HostTensor& host, DType dtype);
  /// Loads a block-quantized matrix.
  /// ERRORS: also kInvalidArgument if the conversion would change values.
  Result<Weight> LoadBlockQuantized(const HostTensor& host, DType dtype);
  /// Stores the act-order permutation of a weight's inputs for Linear; does nothing if there is none.
  Status StoreActOrder(std::span<const int32_t> order, Weight* weight);
  /// An id shared by all weights with the same input permutation; 0: no permutation.
  int OrderOf(const Weight& weight) const;

  /// While an instance lives, this thread waits for its stream, and through it perhaps for other ranks.
  struct Waiting {
    DeviceMessages::Waiting layer, stages;
  };
  [[nodiscard]] Waiting Wait() const { return {exchange_.Wait(), stages_.Wait()}; }
  /// Blocks until the device is idle.
  void AwaitStream();
  void Record(const StepOp& op, int64_t rows);
  /// Runs the recorded operations, as a graph if a step of this shape is likely to recur.
  void LaunchPending();
  /// Runs the recorded operations without caching a graph.
  void Issue();
  void Upload(Staging::UploadMode mode);
  /// Blocks until all slab memory that the copy touches is committed.
  void WaitForCommit(const void* slab, std::span<const SlabRun> runs);
  /// Makes later operations wait for this layer's slab copies if slabs of the segments are being copied.
  void OrderAfterCopies(const AttentionArgs& args);
  template <class T>
  T* Stage(std::span<const T> values) {
    const Staging::Place place = ReserveStaging(values.size_bytes());
    if (!values.empty()) std::memcpy(place.host, values.data(), values.size_bytes());
    return static_cast<T*>(place.device);
  }
  /// Allocates device memory and copies `bytes` into it; `bytes` may be freed on return.
  /// ERRORS: kOverloaded if device memory is exhausted.
  Result<Buffer> Keep(std::span<const std::byte> bytes);
  /// Reserves staging space for a later Upload; first runs the recorded operations if the buffer is full.
  Staging::Place ReserveStaging(size_t bytes);
  const int32_t* StageIndices(std::span<const int64_t> values);
  const DeviceSamplingParams* StageSamplingParams(std::span<const RowSamplingParams> row_params);
  /// Pinned memory whose contents are copied to `host` once the operations issued so far have been waited for.
  std::byte* StageReadback(void* host, size_t bytes);
  /// Records a GEMM with weights of one type and one input order; writes columns [column, column + outputs) of y.
  void RecordLinear(const LinearArgs& args, std::span<const Weight* const> weights, int64_t column, int64_t outputs);
  /// Sends to the next pipeline stage or receives from the previous one; many rows take several calls.
  void TransferRows(OpKind kind, Tensor x);
  /// The sampled ids as a one-column matrix of 4-byte elements, whatever their type.
  Tensor SampledIds(size_t count) const;
  Submission& filling() { return submissions_[filling_]; }
  /// The attention plan that all layers of this kind share; staged on first use.
  AttentionPlan PlanFor(const AttentionArgs& args);
  AttentionPlan StageSegments(const AttentionArgs& args, const PlanKey& layers);
  /// Uploads the adapter mapping of a step unless it is already on the device.
  void StageAdapters(const LowRankArgs& args);
  void InvalidateStaged() { staged_ = {}, adapted_ = {}; }

  static constexpr int64_t kMaxSampledRows = 65536;  // per submission
  static constexpr size_t kActOrderBytes = size_t{32} << 20;
  static constexpr size_t kFirstSegment = 4;    // operations
  static constexpr int64_t kMaxSmallRows = 64;  // steps of up to this number of rows are always captured as graphs

  const CudaBackendOptions options_;
  cudaDeviceProp properties_ = {};
  cudaStream_t stream_ = nullptr;
  DeviceMemory memory_;
  std::span<std::byte> scale_room_;  // rest of a block of memory_, for further scales
  Submission submissions_[2];
  int filling_ = 0;  // index into submissions_
  uint64_t last_submission_ = 0;
  SlabCopies slab_copies_;
  RankExchange exchange_;
  StageExchange stages_;
  std::vector<int64_t> borders_;  // column borders of AllGatherColumns
  StepRunner runner_;
  GraphCache graphs_;
  StepOps pending_;
  bool may_recur_ = true;           // a step of this shape may recur, so a graph may pay off
  size_t segment_ = kFirstSegment;  // number of operations of a large step to record before they are launched
  StagedStep staged_;
  AdapterStep adapted_;
  std::map<std::vector<int32_t>, int> act_order_ids_;
  std::unordered_map<const void*, int> act_order_id_by_address_;  // keyed by the permutation's device address
  void* act_order_x_ = nullptr;  // kActOrderBytes: rows of inputs permuted into a weight's order
  int64_t last_layer_ = -1;      // last attention layer of this submission; earlier layers may still be being written

  int32_t* sampled_ids_ = nullptr;  // tokens sampled by the last submission that sampled, read by Embed
  int64_t sampled_rows_ = 0;        // rows sampled since the last Submit
};

}  // namespace ringside::cuda
