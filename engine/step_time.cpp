#include "engine/step_time.h"

#include <algorithm>
#include <bit>

namespace ringside {
namespace {

// Minimum prompt work of a step for a useful estimate.
constexpr double kMinMeasuredWork = 16;
constexpr double kLearningRate = 0.25;  // weight of the newest measurement

size_t Class(int64_t decoding) {
  return std::min<size_t>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(decoding, 0))), 15);
}

// Value of the nearest measured class; 0 = nothing is measured.
template <size_t N>
double Nearest(const std::array<double, N>& values, size_t wanted) {
  for (size_t apart = 0; apart < N; ++apart) {
    if (wanted >= apart && values[wanted - apart] > 0) return values[wanted - apart];
    if (wanted + apart < N && values[wanted + apart] > 0) return values[wanted + apart];
  }
  return 0;
}

void Learn(double& known, double now) { known = known == 0 ? now : known + kLearningRate * (now - known); }

}  // namespace

void StepTime::Note(int64_t decoding, double prompt_work, int64_t took_ns, int64_t scored) {
  const auto took = static_cast<double>(std::max<int64_t>(took_ns, 1));
  if (prompt_work == 0) return Learn(decode_ns_[Class(decoding)], took);
  if (prompt_work < kMinMeasuredWork) return;
  // Prompt rows overlap with a part of the decode time, so the difference can be small; keep it positive.
  const double of_prompts = std::max(took - DecodeNs(decoding), took / 4);
  if (scored == 0 || ns_per_row_ == 0) return Learn(ns_per_row_, of_prompts / prompt_work);
  if (static_cast<double>(scored) < kMinMeasuredWork) return;
  Learn(ns_per_logits_, std::max(of_prompts - prompt_work * ns_per_row_, 0.0) / static_cast<double>(scored));
}

void StepTime::NoteGap(int64_t took_ns, double goal_ns) {
  // Stochastic approximation of a quantile: in equilibrium one gap in a hundred is late. A pause of the machine moves
  // it as little as any other late step.
  constexpr double kLate = 0.01, kStep = 0.03, kMost = 1.5;
  const bool is_late = static_cast<double>(took_ns) > goal_ns;
  excess_ = std::clamp(excess_ + kStep * (is_late ? 1 - kLate : -kLate), 1.0, kMost);
}

double StepTime::DecodeNs(int64_t decoding) const { return decoding == 0 ? 0 : Nearest(decode_ns_, Class(decoding)); }

void StepTime::NoteDrafts(int64_t decoding, int64_t drafts, int64_t took_ns) {
  // A pause of the machine must not look like the price of drafts: a row costs a step at most.
  constexpr double kLeastNs = 1e-3;
  const double step = DecodeNs(decoding), rows = static_cast<double>(drafts);
  Learn(draft_row_ns_[Class(drafts)], std::max(std::min((static_cast<double>(took_ns) - step) / rows, step), kLeastNs));
}

double StepTime::DraftNs(int64_t decoding, int64_t drafts) const {
  constexpr double kGuess = 0.25;  // of a step
  const double row_ns = Nearest(draft_row_ns_, Class(drafts));
  return static_cast<double>(drafts) * (row_ns > 0 ? row_ns : kGuess * DecodeNs(decoding));
}

void StepTime::NoteLayerDraft(int64_t tokens, int64_t took_ns) {
  Learn(ns_per_layer_draft_, static_cast<double>(std::max<int64_t>(took_ns, 1)) / static_cast<double>(tokens));
}

double StepTime::LayerDraftNs(int64_t decoding) const {
  constexpr double kGuess = 0.1;  // of a step
  return ns_per_layer_draft_ > 0 ? std::min(ns_per_layer_draft_, DecodeNs(decoding)) : kGuess * DecodeNs(decoding);
}

double StepTime::PromptWork(int64_t decoding, double limit_ns, double unmeasured) const {
  if (ns_per_row_ == 0) return unmeasured;
  const double decode = DecodeNs(decoding);
  return std::max(limit_ns - decode, decode / 2) / ns_per_row_;
}

}  // namespace ringside
