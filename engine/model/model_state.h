// What a Model holds: the parts of Model::State, shared by loading and the forward pass. Nobody else includes this.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "engine/model/angle_table.h"
#include "engine/model/model.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace ringside {

/// Device memory of a step: [T, columns], grown to the largest step seen and used again by every step.
struct ScratchTensor {
  int64_t columns = 0;  // 0: this model has none
  DType dtype = DType::kF32;
  Buffer memory;

  /// The first `rows` rows. kOverloaded, naming the bytes, if it must grow and the device has no room.
  Result<Tensor> Rows(Backend& backend, int64_t rows);
};

struct ModelScratch {
  ModelScratch() = default;
  ModelScratch(const ModelSpec& spec, DType between);

  ScratchTensor stream;    // [T, D] the residual stream
  ScratchTensor normed;    // [T, D]
  ScratchTensor qkv;       // [T, (H + 2G) d]
  ScratchTensor attended;  // [T, H d]
  ScratchTensor mlp_in;    // [T, 2F] or [T, F]
  ScratchTensor mlp_mid;   // [T, F], SwiGLU only
  ScratchTensor wanted;    // [rows, D] of which logits are wanted
  ScratchTensor logits;    // [a few rows, V]
};

/// The host's view of a step, rebuilt for each.
struct ModelStep {
  uint64_t number = 0;  // of the step, never 0 while one runs
  std::vector<TokenId> ids;
  std::vector<int64_t> positions, first_live, wanted_rows;
  std::vector<AttentionSegment> segments;
  AngleTable table;
  std::vector<float> own_cos, own_sin, pinned_cos, pinned_sin;  // [T, rotary / 2]
  RopeAngles angles;
};

/// What a step that has begun will bring.
struct BegunStep {
  uint64_t submission = 0;
  std::vector<ChosenToken> chosen;
};

struct Model::State {
  Backend* backend = nullptr;
  ModelSpec spec;
  TokenizerData tokenizer;
  std::string chat_template;
  Weights weights;
  Fingerprint fingerprint{};
  ModelScratch scratch;
  ModelStep step;
  std::deque<BegunStep> begun;
  Tensor unchosen;  // logits that wait for Choose

  Status LoadGguf(const std::string& path);
  Status LoadHuggingFace(const std::string& folder);

  void BuildStep(std::span<const StepPart> parts);
  void ComputeAngles(std::span<const StepPart> parts);
  void Norm(Tensor x, const DeviceVector& weight, const DeviceVector& bias, Tensor y) const;
  void DecoderBlock(int64_t layer, const KvShape& shape, Tensor stream);
  /// Runs a step as far as the residual stream [T, D].
  Tensor Hidden(std::span<const StepPart> parts);
  /// Logits of the wanted rows, a few at a time: take(first, logits [count, V] on the device).
  template <class Take>
  void Logits(Tensor stream, const Take& take);
};

}  // namespace ringside
