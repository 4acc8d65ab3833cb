// The CPU backend. It checks arguments, divides every operation into pieces and runs them on the thread pool. It knows
// nothing of models or conversations; its only state is scratch memory.
// THREAD: one.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/shared_prefix_tiles.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/token_sampler.h"

namespace ringside::cpu {

/// Scratch memory for Recur.
struct RecurrenceScratch {
  std::vector<RecurrenceSegment> segments;
  std::vector<size_t> segment_of_row;
  std::vector<BoundaryWrite> writes;  // of all segments
  std::vector<float> products;        // RecurrenceCall::products
};

class CpuBackend final : public Backend {
 public:
  /// `comms` connects this rank to the others of its group.
  CpuBackend(const KernelTable& kernels, int threads, RankComms comms)
      : kernels_(kernels), pool_(threads), comms_(std::move(comms)) {}
  ~CpuBackend() override;

  Result<Buffer> Allocate(size_t bytes) override;
  void Free(void* data, size_t bytes) override;
  int64_t page_bytes(int64_t slab_bytes) const override { return Memory::PageBytes(slab_bytes); }
  Result<Buffer> Reserve(size_t bytes) override;
  Status Commit(void* data, size_t bytes) override;
  void Decommit(void* data, size_t bytes) override { memory_.Decommit(data, bytes); }
  Status Share(void* to, const void* from, size_t bytes) override;
  void Unshare(void* data, size_t bytes) override { memory_.Unshare(data, bytes); }
  void CopyToDevice(void* device, const void* host, size_t bytes) override;
  void CopyToHost(void* host, const void* device, size_t bytes) override;
  void CopyOnDevice(void* to, const void* from, size_t bytes) override;
  void Synchronize() override;
  CopyTicket SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) override;
  CopyTicket LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) override;
  std::string Describe() const override;
  Status status() const override { return comms_.status(); }
  Result<Weight> LoadWeight(const HostTensor& host) override;

  void Embed(const Weight& table, std::span<const int32_t> ids, float scale, Tensor y) override;
  void AddPositions(const Weight& table, std::span<const int64_t> positions, Tensor y) override;
  void RmsNorm(Tensor x, const float* weight, float eps, Tensor y) override;
  void RmsNormHeads(Tensor x, int64_t heads, const float* weight, float eps) override;
  void LayerNorm(Tensor x, const float* weight, const float* bias, float eps, Tensor y) override;
  void Linear(const LinearArgs& args) override;
  void Scale(Tensor x, float factor) override;
  void ScaleColumns(Tensor x, const float* factors) override;
  void AddScaledRows(Tensor x, Tensor factors, Tensor y) override;
  void MatchMagnitude(Tensor like, Tensor x) override;
  void Sparsify(Tensor x, float deviations) override;
  void LinearHeads(const HeadsArgs& args) override;
  void Attention(const AttentionArgs& args) override;
  void MultiplyActivated(Tensor x, Activation activation, Tensor y) override;
  void Activate(Tensor x, Activation activation) override;
  void Xielu(Tensor x, const XieluParameters& parameters) override;
  void Gate(Tensor gate, GateKind kind, Tensor y) override;
  void Recur(const RecurrenceArgs& args) override;
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
  void SendRows(Tensor x) override;
  void ReceiveRows(Tensor x) override;
  void SendSampledTokens(size_t count) override;
  void ReceiveSampledTokens(size_t count) override;
  void SampleGreedy(Tensor logits, int64_t first, std::span<SampledToken> sampled) override;

 private:
  // Jobs with fewer element operations finish before another thread has woken up.
  static constexpr int64_t kWorthSharing = 16384;

  /// Calls body(r) for every row; on the pool if the work outweighs waking it.
  template <class Body>
  void EachRow(int64_t rows, int64_t cost_per_row, const Body& body) {
    if (rows * cost_per_row < kWorthSharing) {
      for (int64_t r = 0; r < rows; ++r) body(r);
      return;
    }
    const int64_t per_piece = std::max<int64_t>(
        1, std::max(kWorthSharing / 4 / std::max<int64_t>(cost_per_row, 1), rows / (8 * pool_.threads())));
    pool_.Run((rows + per_piece - 1) / per_piece, [&](int64_t piece) {
      for (int64_t r = piece * per_piece; r < std::min(rows, (piece + 1) * per_piece); ++r) body(r);
    });
  }
  /// Scratch memory of at least `bytes`, reused by later calls. Its old contents are lost.
  void* Scratch(size_t bytes, void** data, size_t* capacity);
  void QuantizeInput(const Tensor& x);
  /// Linear for weights without an act-order permutation, and for weights where some have one.
  void LinearWithoutActOrder(const LinearArgs& args);
  void LinearWithActOrder(const LinearArgs& args);
  /// Columns order[0], order[1] ... of x; valid until the next call.
  Tensor InOrder(const Tensor& x, const int32_t* order);
  void StoreKeysAndValues(const AttentionCall& call, std::span<const AttentionSegment> segments);
  void MakeTiles(const AttentionArgs& args);
  void RunTiles(const AttentionCall& call);

  const KernelTable& kernels_;
  Memory memory_;
  ThreadPool pool_;
  RankComms comms_;
  std::vector<float> own_columns_, all_columns_;  // of AllGatherColumns
  std::vector<float> act_order_x_;                // of InOrder
  std::vector<Candidate> own_best_, all_best_;    // of SampleGreedy

  void* activations_ = nullptr;
  size_t activation_bytes_ = 0;
  void* partials_ = nullptr;
  size_t partial_bytes_ = 0;
  // For Experts: routing weights [T, number of experts], 0 if not selected; then one expert's weights, inputs and
  // results.
  std::vector<float> routed_, expert_weights_, expert_x_, expert_in_, expert_mid_, expert_out_;
  std::vector<int64_t> expert_rows_;

  struct StorePiece {
    const AttentionSegment* segment;
    int64_t first, rows;
  };
  /// Tiles of an attention, and the pieces of work into which they are divided.
  struct AttentionWork {
    struct Piece {
      int64_t tile, block;  // block -1: the whole tile
    };
    std::vector<AttentionTile> tiles;
    std::vector<int64_t> first_tiles;  // of each segment; then the number of tiles
    SharedPrefixTiles shared;
    std::vector<Piece> pieces;
    std::vector<int64_t> split_tiles;
  };
  AttentionWork work_;  // of the last attention
  std::vector<StorePiece> store_pieces_;
  RecurrenceScratch recurrence_;
  std::vector<TokenSampler> choosers_;           // one per row
  std::vector<int32_t> sampled_ids_, last_ids_;  // since the last Submit; of the last submission
};

}  // namespace ringside::cpu
