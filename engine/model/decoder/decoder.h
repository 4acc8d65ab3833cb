// One rank's part of a network on its device: weights, workspace, and the forward pass of a step. THREAD: the rank's.
#pragma once

#include <array>
#include <deque>
#include <span>
#include <vector>

#include "engine/model/adapters/adapter_weights.h"
#include "engine/model/decoder/draft_inputs.h"
#include "engine/model/decoder/image_inputs.h"
#include "engine/model/decoder/micro_batches.h"
#include "engine/model/decoder/scratch.h"
#include "engine/model/ranks/rank_decoder.h"
#include "engine/model/step_plan.h"
#include "engine/model/weights/shard.h"
#include "engine/model/weights/weights.h"
#include "kernels/backend.h"

namespace ringside {

class Decoder final : public RankDecoder {
 public:
  /// `borders`: vocabulary shards of all ranks (VocabBorders).
  Decoder(Backend& backend, const ModelSpec& spec, const Shard& shard, std::vector<int64_t> borders, Weights weights);

  /// Adapters included.
  int64_t weight_bytes() const;
  /// Adds the adapter with the next number (StepPlan::adapters).
  void AddAdapter(AdapterWeights adapter);
  /// Packs the adapters for the device. REQUIRES: all were added, before Reserve. ERRORS: kOverloaded without memory.
  Status PackAdapters();
  Status Reserve(int64_t rows) override;
  /// In micro-batches (SplitIntoMicroBatches) if there are pipeline stages.
  void Run(const StepPlan& plan, const KvShape& shape, std::span<const AttentionSegment> segments) override;
  // Ranks of the last stage sample; the results of other ranks are ignored.
  void CopyLogits(std::span<float> logits) override;
  void Choose(std::span<const RowSamplingParams> choices) override;
  void KeepLogits() override;
  void ChooseKept(std::span<const RowSamplingParams> choices, std::span<const size_t> rows) override;
  std::vector<SampledToken> Finish() override;
  /// Samples the most probable token of each of the plan's rows by the draft layer, for Finish. `drafted`:
  /// StepPlan::rows_before are rows of the last Draft.
  void Draft(const StepPlan& plan, bool drafted);
  /// Hidden states of the last step, on ranks of the last stage: [StepPlan::hidden_rows, D].
  const std::vector<float>& hidden_states() const { return hidden_states_; }

 private:
  struct LatentScratch {
    Scratch queries;   // [T, H (plain + rotary)]
    Scratch expanded;  // [T, H v], v: dimensions of an expanded value
  };
  struct LayerInputScratch {
    Scratch all, projected;  // [T, L P]
    Scratch gate;            // [T, P]
  };
  struct StreamScratch {
    Scratch streams, predicted;  // [T, streams D]
    Scratch weights;             // [T, streams]
    Scratch factors;             // [T, streams^2]
    Scratch laurel_low, laurel;  // [T, rank], [T, D]
  };
  /// If embeddings are projected to the hidden size and back.
  struct EmbeddedScratch {
    Scratch in;   // [T, E]
    Scratch out;  // [rows, E], rows with logits
  };
  struct EncoderScratch {
    Scratch keys;  // [T, 2G d] keys and values of the encoder's rows
    Buffer cache;  // of the current encoder layer
  };
  /// A launched step.
  struct Begun {
    uint64_t submission = 0;
    std::vector<SampledToken> chosen;
  };
  /// All adapters' matrices for one part of a layer.
  struct PackedPart {
    std::vector<std::span<const LowRank>> matrices;  // by adapter
    int64_t ranks = 0;                               // maximum over the adapters of the summed ranks
    Buffer placed;                                   // Backend::PackLowRank
  };

  /// Runs the encoder on an input and writes the decoder layers' cross-attention keys and values to the cache's pinned
  /// positions.
  void Encode(const StepPlan::EncoderInput& input, const KvShape& shape);
  /// Shape of encoder_.cache for an input of `rows` rows; reserves its memory. ERRORS: kOverloaded without memory.
  Result<KvShape> EncoderCache(int64_t rows);
  void Embed(const StepPlan& plan, const MicroBatch& batch);
  void EmbedVirtual(const StepPlan::VirtualRows& rows, const MicroBatch& batch, Tensor embedded);
  void RunLayers(const MicroBatch& batch, const KvShape& shape);
  /// One layer's part of a step.
  struct LayerStep {
    AttentionArgs attention;  // its layer is counted among those with attention
    RecurrenceArgs recurrence;
    int64_t layer = 0;
    Mixer mixer = Mixer::kAttention;
    bool attends = true;
  };
  /// A layer's part of a step. `query_scales`: of the rows.
  LayerStep StepOf(int64_t layer, const MicroBatch& batch, const KvShape& shape,
                   std::span<const float> query_scales) const;
  void Block(const LayerWeights& w, const LayerStep& step);
  void Norm(Tensor x, const DeviceVector& weight, const DeviceVector& bias, Tensor y) const;
  /// x = the norm of a layer's output.
  void PostNorm(Tensor x, const DeviceVector& weight) const;
  /// The stream's norm in `scratch`; the stream itself if there is no such norm.
  Tensor NormedStream(const DeviceVector& weight, const DeviceVector& bias, Scratch& scratch);
  void Attend(Tensor x, const LayerWeights& w, const LayerStep& step);
  /// Attend, for multi-head latent attention.
  void AttendLatent(Tensor x, const LayerWeights& w, const LayerStep& step);
  void Recur(Tensor x, const LayerWeights& w, const LayerStep& step);
  /// Cross-attention to the encoder's rows.
  void AttendToInput(const LayerWeights& w, const LayerStep& step);
  void Mlp(Tensor x, const LayerWeights& w, int64_t layer);
  /// The MLP's hidden columns, after the activation.
  Tensor MlpHidden(Tensor x, const LayerWeights& w, int64_t layer);
  Tensor RouterLogits(Tensor x, const LayerWeights& w);
  /// y += or = the experts of x.
  void Experts(Tensor x, Tensor router, const LayerWeights& w, Tensor y, bool accumulate);
  /// sum = the MLP of x, without its output norm.
  void MlpInto(Tensor x, const LayerWeights& w, int64_t layer, Tensor sum);
  /// MLP and experts of ModelSpec::separate_experts.
  void MlpAndExperts(const LayerWeights& w, int64_t layer);
  /// MLP and experts of x, summed over all ranks, with a norm of their sum if there is one.
  void SummedExperts(Tensor x, const LayerWeights& w, int64_t layer);
  /// Computes the per-layer inputs (ModelSpec::layer_inputs) of all layers from the stream of embeddings.
  void EmbedLayerInputs(std::span<const TokenId> ids);
  /// part_ = a layer's part of the per-layer inputs, gated by `stream`.
  Tensor LayerInput(Tensor stream, const LayerWeights& w, int64_t layer);
  /// Several streams (ModelSpec::streams): from the embedding; a layer; their mean, in stream_.
  void SplitStreams();
  void BlockOfStreams(const LayerWeights& w, const LayerStep& step);
  void JoinStreams();
  /// [T, streams]: tanh of the router of a stream.
  Tensor StreamWeightsOf(Tensor stream, const LayerWeights& w);
  /// A term of the residual stream: x W^T + bias, plus the adapters' part.
  struct StreamPart {
    const Weight& weight;
    const DeviceVector &bias, &norm;
    int64_t layer;
    AdaptedPart adapted;
  };
  /// stream += the term, summed over all ranks; with an output norm, += its norm.
  void AddToStream(Tensor x, const StreamPart& part);
  /// stream += the sum of all ranks' `own`, or its norm.
  void AddSum(Tensor own, const DeviceVector& norm);
  /// RmsNorm in place of whole rows with `columns` columns on all ranks (Backend::RmsNormOfRanks).
  void NormRow(Tensor x, int64_t columns, bool counts, const float* weight, float eps);
  /// The norms of ModelSpec::qk_norm, in place. `keys` has no columns if they are another layer's.
  void NormQueriesAndKeys(Tensor queries, Tensor keys, const LayerWeights& w, int64_t layer);
  /// y += the adapters' part of this layer for each row.
  void AddAdapted(Tensor x, int64_t layer, AdaptedPart part, Tensor y);
  /// The rows after the final norm and the projection, in `scratch` or in place.
  Tensor FinalRows(std::span<const int64_t> rows, Scratch& scratch, Scratch& projected);
  void CopyHiddenStates(std::span<const int64_t> rows);
  /// Computes logits of the wanted rows, a few at a time: take(first, logits [count, V] on the device). Only this
  /// rank's vocabulary shard, unless `gathered`.
  template <class Take>
  void Logits(bool gathered, const Take& take);

  Backend& backend_;
  const ModelSpec whole_, own_;  // specs of the network, and of this rank's part
  const Shard shard_;
  const std::vector<int64_t> borders_;
  const Weights weights_;
  std::vector<AdapterWeights> adapters_;
  std::vector<std::array<PackedPart, kAdaptedParts>> packed_adapters_;  // by layer; empty without adapters

  Scratch stream_scratch_;  // [T, D] residual stream; T is a micro-batch except in the last stage
  Scratch normed_;          // [T, D]
  Scratch mlp_normed_;      // [T, D], if attention and MLP have separate norms of one input
  Scratch qkv_;             // [T, (H + 2G) d] after [T, H d] gates; or a recurrent layer's projected rows; or latents
  Scratch attended_;        // [T, H v], v: dimensions of a cached value; or a recurrent layer's result
  LatentScratch latent_;    // of latent attention
  Scratch mixed_;           // [T, RecurrenceShape::mixed_columns()]
  Scratch mlp_in_;          // [T, 2F] or [T, F], F: the widest dense MLP
  Scratch mlp_mid_;         // [T, F], for gated MLPs
  Scratch experts_;         // [T, D], for experts next to an MLP
  LayerInputScratch layer_inputs_;
  StreamScratch streams_;
  Scratch router_;  // [T, experts]
  Scratch part_;    // [T, D] partial sum of this rank, for the all-reduce or an output norm
  Scratch wanted_;  // [rows, D] rows with logits or hidden states
  EmbeddedScratch embedded_;
  ImageInputs images_;  // of the current micro-batch
  Scratch hidden_;      // [rows, D] or [rows, E], rows with hidden states
  Scratch logits_;      // [a few rows, V]
  Scratch low_rank_;    // [T, r], r: ranks of all adapters of one input
  EncoderScratch encoder_;
  DraftInputs draft_;
  const DeviceVector none_;

  uint64_t attention_step_ = 0;            // AttentionArgs::step
  Tensor stream_;                          // of the current micro-batch; of the whole step at the end
  std::span<const int> adapters_of_rows_;  // of the current micro-batch; empty if no row has an adapter
  std::vector<int64_t> wanted_rows_;       // of the step
  Tensor kept_;                            // logits that wait for ChooseKept
  std::vector<float> hidden_states_;
  std::deque<Begun> begun_;
};

}  // namespace ringside
