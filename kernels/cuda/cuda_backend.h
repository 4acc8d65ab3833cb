// The CUDA backend. It checks arguments, stages host data in device memory and records operations
// (steps/step_recorder.h); recorded operations run together when a result is needed (Synchronize, copies). The backend
// knows nothing of models or conversations. THREAD: one thread at a time; each calls MakeCurrent first.
#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/attention/attention_staging.h"
#include "kernels/cuda/memory/device_memory.h"
#include "kernels/cuda/ranks/rank_exchange.h"
#include "kernels/cuda/ranks/stage_exchange.h"
#include "kernels/cuda/recurrence/recurrence_staging.h"
#include "kernels/cuda/sampling/sampled_tokens.h"
#include "kernels/cuda/slab_copies.h"
#include "kernels/cuda/steps/step_recorder.h"
#include "kernels/cuda/weight_loader.h"

namespace ringside::cuda {

/// The staged mapping from the rows of a step to their adapters.
struct AdapterStep {
  uint64_t step = 0;   // 0: none
  uint64_t epoch = 0;  // StepRecorder::staging_epoch
  const AdapterTile* tiles = nullptr;
  int64_t count = 0;
};

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
  Status Share(void* to, const void* from, size_t bytes) override;
  void Unshare(void* data, size_t bytes) override;
  void CopyToDevice(void* device, const void* host, size_t bytes) override;
  void CopyToHost(void* host, const void* device, size_t bytes) override;
  void CopyOnDevice(void* to, const void* from, size_t bytes) override;
  void Synchronize() override { recorder_.Synchronize(); }
  void Flush() override { recorder_.Flush(); }
  uint64_t Submit() override { return recorder_.Submit(); }
  void WaitFor(uint64_t submission) override { recorder_.WaitFor(submission); }
  bool runs_ahead() const override { return true; }
  int64_t saturating_rows() const override { return 128; }
  DType activation_dtype() const override { return options_.dtype; }
  DType weight_dtype() const override { return options_.quantization.value_or(options_.dtype); }
  bool multiplies_in_e4m3() const override { return recorder_.runner().multiplies_in_e4m3(); }
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
  void LinearHeads(const HeadsArgs& args) override;
  void AddLowRank(const LowRankArgs& args) override;
  void Attention(const AttentionArgs& args) override;
  void MultiplyActivated(Tensor x, Activation activation, Tensor y) override;
  void Activate(Tensor x, Activation activation) override;
  void Recur(const RecurrenceArgs& args) override;
  void Xielu(Tensor x, const XieluParameters& parameters) override;
  void ScaleColumns(Tensor x, const float* factors) override;
  void AddScaledRows(Tensor x, Tensor factors, Tensor y) override;
  void MatchMagnitude(Tensor like, Tensor x) override;
  void Sparsify(Tensor x, float deviations) override;
  void Scale(Tensor x, float factor) override;
  void Gate(Tensor gate, GateKind kind, Tensor y) override;
  void Experts(const ExpertsArgs& args) override;
  void Add(Tensor x, Tensor y) override;
  void SoftCap(Tensor x, float cap) override;
  void GatherRows(Tensor x, std::span<const int64_t> rows, Tensor y) override;
  void SampleTokens(Tensor logits, std::span<const RowSamplingParams> row_params,
                    std::span<SampledToken> sampled) override;
  void AllReduceAdd(Tensor x, Tensor y) override;
  void AllReduceInPlace(Tensor x) override;
  void RmsNormOfRanks(Tensor x, int64_t columns, bool counts, const float* weight, float eps) override;
  void AllGatherColumns(Tensor x, std::span<const int64_t> borders) override;
  void SendRows(Tensor x) override { TransferRows(OpKind::kSend, x); }
  void ReceiveRows(Tensor x) override { TransferRows(OpKind::kReceive, x); }
  void SendSampledTokens(size_t count) override { TransferRows(OpKind::kSend, sampled_.AsColumn(count)); }
  void ReceiveSampledTokens(size_t count) override { TransferRows(OpKind::kReceive, sampled_.AsColumn(count)); }
  void SampleGreedy(Tensor logits, int64_t first, std::span<SampledToken> sampled) override;

 private:
  /// The last layer of a submission with attention, or with a recurrence; earlier layers may still be being written.
  struct LastLayer {
    uint64_t epoch = 0;  // StepRecorder::submission_epoch
    int64_t layer = -1;
  };

  void Unmap(void* data, size_t bytes, bool frees);
  /// Records a GEMM with weights of one type and one input order; writes columns [column, column + outputs) of y.
  void RecordLinear(const LinearArgs& args, std::span<const Weight* const> weights, int64_t column, int64_t outputs);
  void RecordAllReduce(Tensor x, Tensor y, bool accumulate);
  /// Sends to the next pipeline stage or receives from the previous one; many rows take several calls.
  void TransferRows(OpKind kind, Tensor x);

  const CudaBackendOptions options_;
  cudaDeviceProp properties_ = {};
  cudaStream_t stream_ = nullptr;
  DeviceMemory memory_;
  SlabCopies slab_copies_;
  RankExchange exchange_;
  StageExchange stages_;
  std::vector<int64_t> borders_;  // column borders of AllGatherColumns
  StepRecorder recorder_{&exchange_, &stages_, &slab_copies_};
  WeightLoader weights_{options_, this, &memory_, &recorder_};
  AttentionStaging attention_{options_.deterministic, &memory_, &recorder_};
  RecurrenceStaging recurrence_{options_.deterministic, &memory_, &recorder_};
  AdapterStep adapted_;
  LastLayer last_layer_, last_recurrence_;
  SampledTokens sampled_;
};

}  // namespace ringside::cuda
