// What enters a draft layer (ModelSpec::draft_layers): at a position, the token's embedding and the hidden state of the
// token before it, each normed, and projected to the stream. Keeps the hidden states of the last step's rows and of the
// last draft. THREAD: the rank's.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "engine/families/model_spec.h"
#include "engine/model/decoder/scratch.h"
#include "engine/model/weights/weights.h"
#include "kernels/backend.h"

namespace ringside {

class DraftInputs {
 public:
  /// REQUIRES: all outlive it.
  DraftInputs(Backend& backend, const ModelSpec& spec, const Weights& weights);

  /// False if the network has no draft layer: then nothing else may be called but Reserve.
  bool any() const { return spec_.draft_layers > 0; }
  const LayerWeights& layer() const { return weights_.layers[static_cast<size_t>(spec_.layers)]; }
  /// Workspace for steps of `rows` rows. ERRORS: kOverloaded without memory.
  Status Reserve(int64_t rows);

  /// First, the embeddings of the rows [T, D], which may be overwritten afterwards.
  void SetEmbeddings(Tensor embedded);
  /// Then, for a step: keeps the hidden states of the residual stream's rows [T, D] and uses those before the rows.
  /// `rows_before`: StepPlan::rows_before.
  void SetStates(Tensor stream, std::span<const AttentionSegment> segments, std::span<const int64_t> rows_before);
  /// Or, for a draft of T rows: uses the states of the last step, or the results of the last draft.
  void UseStates(std::span<const int64_t> rows_before, bool of_draft);
  /// At last, the stream [T, D] that enters the layer.
  Tensor Stream();
  /// Keeps the layer's normed results for the next UseStates, and returns them for the head.
  Tensor KeepResults(Tensor stream);
  /// Stores the keys and values of the layer for the rows of Stream. `args`: the layer's.
  void StoreKeys(Tensor stream, AttentionArgs args);

  /// Embeddings are written here in a draft [T, D]; part of Stream's memory.
  Tensor StreamRows(int64_t rows);

 private:
  static constexpr int64_t kSmallRows = 64;
  /// The kept states, or more: the same number for all small steps, so that their graphs are equal.
  Tensor States(int64_t rows);
  void Norm(Tensor x, const DeviceVector& weight, Tensor y) { backend_.RmsNorm(x, weight.data(), spec_.norm_eps, y); }

  Backend& backend_;
  const ModelSpec& spec_;
  const Weights& weights_;
  Scratch hidden_;  // [.., D]: zeros; states of the last step's rows; results of the last draft
  Scratch before_;  // [T, D] the state before each row
  Scratch inputs_;  // [T, 2D]
  Scratch stream_;  // [T, D]
  Scratch normed_;  // [T, D]
  Scratch keys_;    // [T, keys and values]
  int64_t last_rows_ = 0, drafted_rows_ = 0, rows_ = 0;
};

}  // namespace ringside
