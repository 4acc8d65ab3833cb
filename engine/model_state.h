// What a Model holds: the parts of Model::State, shared by loading and the forward pass. Nobody else includes this.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "engine/angle_table.h"
#include "engine/model.h"
#include "engine/weights.h"

namespace ringside {

/// Device memory that grows to the largest step seen and is used again by every step.
struct ModelScratch {
  Buffer stream;    // [T, D] the residual stream
  Buffer normed;    // [T, D]
  Buffer qkv;       // [T, (H + 2G) d]
  Buffer attended;  // [T, H d]
  Buffer mlp_in;    // [T, 2F] or [T, F]
  Buffer mlp_mid;   // [T, F], SwiGLU only
  Buffer wanted;    // [rows, D] of which logits are wanted
  Buffer logits;    // [a few rows, V]
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
