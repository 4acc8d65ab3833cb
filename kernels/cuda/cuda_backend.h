// The CUDA backend: checks arguments, brings what is on the host to the device and records operations; they run
// together when a result is wanted (Synchronize, copies), as one CUDA graph from the second step of a shape on. Steps
// of many rows that are no whole chunk run at once instead: their shapes rarely come again. It holds no model and no
// conversation. Calls come from one thread at a time, each of which has called UseOnThisThread.
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
  /// `comms`: of the ranks that this is one of, all of which start at one time.
  Status Start(RankComms comms);

  void UseOnThisThread() override;
  Result<Buffer> Allocate(size_t bytes) override;
  void Free(void* data, size_t bytes) override;
  int64_t page_bytes(int64_t /*slab_bytes*/) const override { return static_cast<int64_t>(memory_.page_bytes()); }
  Result<Buffer> Reserve(size_t bytes) override;
  Status Commit(void* data, size_t bytes) override;
  bool Committed(const void* data, size_t bytes, int64_t most_us) override;
  void Decommit(void* data, size_t bytes) override;
  void CopyToDevice(void* device, const void* host, size_t bytes) override;
  void CopyToHost(void* host, const void* device, size_t bytes) override;
  void CopyOnDevice(void* to, const void* from, size_t bytes) override;
  void Synchronize() override;
  void Flush() override;
  uint64_t Submit() override;
  void WaitFor(uint64_t submission) override;
  bool runs_ahead() const override { return true; }
  int64_t busy_rows() const override { return 128; }
  DType activation_dtype() const override { return options_.dtype; }
  DType weight_dtype() const override { return options_.quantization.value_or(options_.dtype); }
  std::string Describe() const override;
  std::optional<size_t> free_bytes() const override { return memory_.free_bytes(); }
  Status status() const override;
  CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) override;
  CopyTicket LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) override;
  bool CopyDone(CopyTicket ticket) override { return slab_copies_.Done(ticket); }
  void WaitForCopy(CopyTicket ticket) override;
  int64_t slab_piece_bytes() const override { return int64_t{8} << 20; }  // the link's full rate begins at 2 MiB a call
  bool PinHost(void* data, size_t bytes) override;
  Result<Weight> LoadWeight(const HostTensor& host) override;
  Result<Weight> MakeRandomWeight(const RandomMatrix& matrix) override;
  Result<Buffer> PlaceExperts(std::span<const Expert> experts) override;
  Result<Buffer> PlaceLowRank(std::span<const std::span<const LowRank>> adapters) override;

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
  void ChooseTokens(Tensor logits, std::span<const TokenChoice> choices, std::span<ChosenToken> chosen) override;
  void AddAllRanks(Tensor x, Tensor y) override;
  void GatherColumns(Tensor x, std::span<const int64_t> borders) override;
  void SendRows(Tensor x) override { HandOver(OpKind::kSend, x); }
  void ReceiveRows(Tensor x) override { HandOver(OpKind::kReceive, x); }
  void SendChosen(size_t count) override { HandOver(OpKind::kSend, ChosenIds(count)); }
  void ReceiveChosen(size_t count) override { HandOver(OpKind::kReceive, ChosenIds(count)); }
  void ChooseHighest(Tensor logits, int64_t first, std::span<ChosenToken> chosen) override;

 private:
  /// Layers that share the staged part of an attention operation.
  struct StagedFor {
    int64_t tile_heads = 0;
    int64_t window = 0;             // 0: none that hides a key
    bool traits = false;            // soft cap, slopes, sinks or biases, or an encoder's rows
    KeysSeen seen = KeysSeen::kBefore;
    const float* angles = nullptr;  // own_cos on the host; null: no rotation
    friend bool operator==(const StagedFor&, const StagedFor&) = default;
  };
  /// What is staged of a step.
  struct StagedStep {
    uint64_t step = 0;     // 0: none
    int64_t farthest = 0;  // key that a row sees, but for windows
    std::vector<std::pair<StagedFor, AttentionPlan>> plans;
  };

  /// Which rows of a step have which adapter, staged.
  struct AdaptedStep {
    uint64_t step = 0;  // 0: none
    const AdaptedTile* tiles = nullptr;
    int64_t count = 0;
  };

  /// Memory for a matrix of options_.dtype.
  Result<Weight> TakeWeight(int64_t rows, int64_t cols);
  /// Of `bytes`, and so many scales.
  Result<Weight> TakeScaledWeight(DType dtype, int64_t rows, int64_t cols, size_t bytes, size_t scales);
  std::byte* TakeScales(size_t count);
  /// Of one byte an element, kI8 or kF8E4M3: rounded to it, or as the file has it.
  Result<Weight> LoadBytes(const HostTensor& host, DType dtype);
  /// kInvalidArgument, too, for values that would not stay as they are.
  Result<Weight> LoadBlocks(const HostTensor& host, DType dtype);
  /// The order of a weight's inputs, for Linear; nothing if they have none.
  Status KeepOrder(std::span<const int32_t> order, Weight* weight);
  /// The same number for weights whose inputs have the same order; 0: none.
  int OrderOf(const Weight& weight) const;

  /// While it lives this thread waits for its stream, and may wait for other ranks there.
  struct Waiting {
    DeviceMessages::Waiting layer, stages;
  };
  [[nodiscard]] Waiting Wait() const { return {exchange_.Wait(), stages_.Wait()}; }
  /// Until the device has done everything.
  void AwaitStream();
  void Record(const StepOp& op, int64_t rows);
  /// What is recorded, as a graph if such a step is likely to come again.
  void PlayPending();
  /// What is recorded, without keeping a graph.
  void Issue();
  void Upload(Staging::Way way);
  /// Waits until there is memory where a copy goes or comes from.
  void AwaitRuns(const void* slab, std::span<const SlabRun> runs);
  /// What is issued from now on waits for the layer's copies where slabs of the segments are on their way.
  void AwaitCopies(const AttentionArgs& args);
  template <class T>
  T* Stage(std::span<const T> values) {
    const Staging::Place place = StageRoom(values.size_bytes());
    if (!values.empty()) std::memcpy(place.host, values.data(), values.size_bytes());
    return static_cast<T*>(place.device);
  }
  /// Memory of its own with these bytes, which may go when it returns. kOverloaded without room.
  Result<Buffer> Keep(std::span<const std::byte> bytes);
  /// Room for a later Upload; does what is recorded first if there is none left.
  Staging::Place StageRoom(size_t bytes);
  const int32_t* StageIndices(std::span<const int64_t> values);
  const ChoiceRow* StageChoices(std::span<const TokenChoice> choices);
  /// Pinned memory whose contents go to `host` when what is issued now has been waited for.
  std::byte* Land(void* host, size_t bytes);
  /// Some of a layer's weights, all of one type and order: columns [column, column + outputs) of the result.
  void RecordLinear(const LinearArgs& args, std::span<const Weight* const> weights, int64_t column, int64_t outputs);
  /// To the next stage, or from the one before, in several calls where there are many rows.
  void HandOver(OpKind kind, Tensor x);
  /// As a matrix of one column: 4 bytes each, whatever they mean.
  Tensor ChosenIds(size_t count) const;
  Submission& filling() { return submissions_[filling_]; }
  /// What all layers of a kind share, staged; found if it is already.
  AttentionPlan PlanFor(const AttentionArgs& args);
  AttentionPlan StageSegments(const AttentionArgs& args, const StagedFor& layers);
  /// Brings a step's adapters to the device, if they are not there already.
  void StageAdapted(const LowRankArgs& args);
  void ForgetStaged() { staged_ = {}, adapted_ = {}; }

  static constexpr int64_t kMostChosenRows = 65536;  // of a submission
  static constexpr size_t kOrderedBytes = size_t{32} << 20;
  static constexpr size_t kFirstSegment = 4;         // operations
  static constexpr int64_t kMostSmallRows = 64;      // of steps that become graphs whatever they have

  const CudaBackendOptions options_;
  cudaDeviceProp properties_ = {};
  cudaStream_t stream_ = nullptr;
  DeviceMemory memory_;
  std::span<std::byte> scale_room_;  // of memory_, for further scales
  Submission submissions_[2];
  int filling_ = 0;  // of them
  uint64_t last_submission_ = 0;
  SlabCopies slab_copies_;
  RankExchange exchange_;
  StageExchange stages_;
  std::vector<int64_t> borders_;  // of GatherColumns
  StepRunner runner_;
  GraphCache graphs_;
  StepOps pending_;
  bool recurs_ = true;              // it may be worth a graph
  size_t segment_ = kFirstSegment;  // operations of a large step to record before they are played
  StagedStep staged_;
  AdaptedStep adapted_;
  std::map<std::vector<int32_t>, int> order_numbers_;
  std::unordered_map<const void*, int> numbers_of_orders_;  // on the device
  void* ordered_x_ = nullptr;  // kOrderedBytes: inputs in a weight's order, of as many rows as there is room for
  int64_t last_layer_ = -1;  // of attention in this submission; layers before it may be being written

  int32_t* chosen_ids_ = nullptr;  // of the last submission that chose, for Embed
  int64_t chosen_rows_ = 0;        // chosen since the last Submit
};

}  // namespace ringside::cuda
