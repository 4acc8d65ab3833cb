// The inputs of a step's image rows on the device: they replace embeddings, and parts of them are added after the first
// layers (DeepStack, Meng et al. 2024). THREAD: the rank's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/decoder/micro_batches.h"
#include "engine/model/step_plan.h"
#include "kernels/backend.h"

namespace ringside {

class ImageInputs {
 public:
  /// `layers`: ModelSpec::image_layers. REQUIRES: `backend` outlives it.
  ImageInputs(Backend& backend, int64_t layers) : backend_(backend), layers_(layers) {}

  /// Workspace for steps of `rows` rows of `hidden` columns; a larger step makes it grow. ERRORS: kOverloaded without
  /// memory.
  Status Reserve(int64_t rows, int64_t hidden);
  /// Replaces the embeddings of a micro-batch's image rows; its other rows are unchanged. embedded [T, D]; `scratch`
  /// [T, D], in the activation type, is overwritten.
  void Embed(std::span<const StepPlan::ImageRow> rows, const MicroBatch& batch, Tensor scratch, Tensor embedded);
  /// Adds a layer's part of the same rows to the stream [T, D], after the layer.
  void Add(int64_t layer, Tensor stream);

 private:
  /// Image rows that are adjacent in the micro-batch and in host memory.
  struct Run {
    int64_t row = 0, rows = 0;
    const std::byte* values = nullptr;
  };
  void FindRuns(std::span<const StepPlan::ImageRow> rows, const MicroBatch& batch, int64_t columns);
  /// The whole rows of a run [rows, (1 + layers) hidden].
  Tensor Inputs(const Run& run, int64_t hidden) const;

  Backend& backend_;
  const int64_t layers_;
  Buffer memory_;  // with layers: the images' rows, at their places in the micro-batch
  std::vector<Run> runs_;
};

}  // namespace ringside
