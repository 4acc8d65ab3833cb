// One rank's part of a network on its device: weights, scratch memory, and the forward pass of a step. Used by the
// rank's thread only.
#pragma once

#include <array>
#include <deque>
#include <span>
#include <vector>

#include "engine/model/adapters/adapter_weights.h"
#include "engine/model/micro_batches.h"
#include "engine/model/ranks/rank_decoder.h"
#include "engine/model/step_plan.h"
#include "engine/model/weights/shard.h"
#include "engine/model/weights/weights.h"
#include "kernels/backend.h"

namespace ringside {

class Decoder final : public RankDecoder {
 public:
  /// `borders`: of all ranks' parts of the vocabulary (VocabBorders).
  Decoder(Backend& backend, const ModelSpec& spec, const Shard& shard, std::vector<int64_t> borders, Weights weights);

  /// Of adapters, too.
  int64_t weight_bytes() const;
  /// Takes the adapter that rows of steps call by the next number (StepPlan::adapters).
  void AddAdapter(AdapterWeights adapter);
  /// Behind the last of them, before Reserve. kOverloaded without room.
  Status PlaceAdapters();
  Status Reserve(int64_t rows) override;
  /// In micro-batches (CutStep) where there are stages.
  void Run(const StepPlan& plan, const KvShape& shape, std::span<const AttentionSegment> segments) override;
  // Ranks of the last stage choose; what others say they have chosen is nothing.
  void CopyLogits(std::span<float> logits) override;
  void Choose(std::span<const TokenChoice> choices) override;
  void KeepLogits() override;
  void ChooseKept(std::span<const TokenChoice> choices) override;
  std::vector<ChosenToken> Finish() override;
  /// Of the last step that ran, on ranks of the last stage: [StepPlan::hidden_rows, D].
  const std::vector<float>& hidden_states() const { return hidden_states_; }

 private:
  /// Device memory of a step: [T, columns], grown to the largest step seen and used again by every step.
  struct Scratch {
    int64_t columns = 0;  // 0: this model has none
    DType dtype = DType::kF32;
    Buffer memory;

    /// The first `rows` rows. kOverloaded, naming the bytes, if it must grow and the device has no room.
    Result<Tensor> Rows(Backend& backend, int64_t rows);
  };
  /// What a step that has begun will bring.
  struct Begun {
    uint64_t submission = 0;
    std::vector<ChosenToken> chosen;
  };
  /// What all adapters have for one part of a layer.
  struct PlacedPart {
    std::vector<std::span<const LowRank>> matrices;  // of each adapter
    int64_t ranks = 0;                               // r of one's matrices together, where that is most
    Buffer placed;                                   // Backend::PlaceLowRank
  };

  /// Runs the encoder on an input, and takes what the decoder's layers make of it to the cache's pinned positions.
  void Encode(const StepPlan::EncoderInput& input, const KvShape& shape);
  /// What encoder_cache_ holds of an input of so many rows; room for it. kOverloaded without.
  Result<KvShape> EncoderCache(int64_t rows);
  void Embed(const StepPlan& plan, const MicroBatch& batch);
  void EmbedVirtual(const StepPlan::VirtualRows& rows, const MicroBatch& batch, Tensor embedded);
  void RunLayers(const MicroBatch& batch, const KvShape& shape);
  void Block(const LayerWeights& w, const AttentionArgs& step);
  void Norm(Tensor x, const DeviceVector& weight, const DeviceVector& bias, Tensor y) const;
  /// The stream's norm in `scratch`; the stream itself where there is no such norm.
  Tensor NormedStream(const DeviceVector& weight, const DeviceVector& bias, Scratch& scratch);
  void Attend(Tensor x, const LayerWeights& w, const AttentionArgs& step);
  /// The attention to an encoder's rows.
  void AttendToInput(const LayerWeights& w, const AttentionArgs& step);
  void Mlp(Tensor x, const LayerWeights& w, int64_t layer);
  void Experts(Tensor x, const LayerWeights& w);
  /// Something that is added to the residual stream: x W^T + bias, and what adapters add to it.
  struct StreamPart {
    const Weight& weight;
    const DeviceVector &bias, &norm;
    int64_t layer;
    AdaptedPart adapted;
  };
  /// stream += the part, of all ranks' x and W together; or the norm of that, if there is one behind it.
  void AddToStream(Tensor x, const StreamPart& part);
  /// y += what the rows' adapters add to this part of the layer.
  void AddAdapted(Tensor x, int64_t layer, AdaptedPart part, Tensor y);
  /// These rows of the stream: some of its own where they follow one another, else copied to wanted_.
  Tensor RowsOfStream(std::span<const int64_t> rows);
  /// The rows after the final norm and the projection, in `scratch` or where they are already.
  Tensor FinalRows(std::span<const int64_t> rows, Scratch& scratch, Scratch& projected);
  void CopyHiddenStates(std::span<const int64_t> rows);
  /// Logits of the wanted rows, a few at a time: take(first, logits [count, V] on the device); those of this rank's
  /// tokens only, unless they are gathered.
  template <class Take>
  void Logits(bool gathered, const Take& take);

  Backend& backend_;
  const ModelSpec own_;  // of this rank's part
  const Shard shard_;
  const std::vector<int64_t> borders_;
  const Weights weights_;
  std::vector<AdapterWeights> adapters_;
  std::vector<std::array<PlacedPart, kAdaptedParts>> placed_adapters_;  // of each layer; none without adapters

  Scratch stream_scratch_;  // [T, D] the residual stream; of a micro-batch, but in the last stage
  Scratch normed_;          // [T, D]
  Scratch mlp_normed_;      // [T, D], where attention and MLP have the same input behind a norm each
  Scratch qkv_;             // [T, (H + 2G) d]
  Scratch attended_;        // [T, H d]
  Scratch mlp_in_;          // [T, 2F] or [T, F]
  Scratch mlp_mid_;         // [T, F], of gated ones
  Scratch router_;          // [T, experts]
  Scratch part_;            // [T, D] of this rank, to be summed with the others', or to be normed
  Scratch wanted_;          // [rows, D] of which logits or hidden states are wanted
  Scratch embedded_;        // [T, E], of embeddings that are projected
  Scratch projected_;       // [rows, E] of which logits are wanted
  Scratch hidden_;          // [rows, D] or [rows, E] of which hidden states are
  Scratch logits_;          // [a few rows, V]
  Scratch low_rank_;        // [T, r] of the adapters' matrices of one input together
  Scratch encoded_keys_;    // [T, 2G d] keys and values of an encoder's rows
  Buffer encoder_cache_;    // of an encoder's layer that runs
  const DeviceVector none_;

  uint64_t attention_step_ = 0;            // AttentionArgs::step
  Tensor stream_;                          // of the micro-batch that runs; of the step in the end
  std::span<const int> adapters_of_rows_;  // of it; empty where no row has one
  std::vector<int64_t> wanted_rows_;       // of the step
  Tensor kept_;                            // logits that wait for ChooseKept
  std::vector<float> hidden_states_;
  std::deque<Begun> begun_;
};

}  // namespace ringside
