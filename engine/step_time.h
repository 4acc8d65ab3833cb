// A model of step durations, learned from past steps, so that a step is sized by time on any model and device. THREAD:
// engine.
#pragma once

#include <array>
#include <cstdint>

namespace ringside {

class StepTime {
 public:
  /// Records a step with `decoding` decode rows and prompt rows worth `prompt_work`, in units of a row without
  /// attention. `scored`: prompt rows with logits.
  void Note(int64_t decoding, double prompt_work, int64_t took_ns, int64_t scored = 0);

  /// Records a step with `decoding` decode rows and `drafts` draft rows. REQUIRES: drafts > 0.
  void NoteDrafts(int64_t decoding, int64_t drafts, int64_t took_ns);

  /// Records a draft of the draft layer, of `tokens` passes.
  void NoteLayerDraft(int64_t tokens, int64_t took_ns);
  /// Records the time between two tokens of the decoding turns.
  void NoteGap(int64_t took_ns, double goal_ns);
  /// Predicted duration of a step with prompts such that 99 % of the times between tokens are at most `goal_ns`.
  double TargetNs(double goal_ns) const { return goal_ns / excess_; }

  /// Duration of a step that only decodes; 0 = not measured.
  double DecodeNs(int64_t decoding) const;
  /// Additional time of draft rows in a step with `decoding` decode rows; a guess until it is measured.
  double DraftNs(int64_t decoding, int64_t drafts) const;
  /// Time of a pass of the draft layer; a guess until it is measured.
  double LayerDraftNs(int64_t decoding) const;
  /// Additional time of prompt rows; 0 = not measured.
  double PromptNs(double prompt_work) const { return prompt_work * ns_per_row_; }
  /// Work of one row's logits; 0 = not measured.
  double LogitsWork() const { return ns_per_row_ == 0 ? 0 : ns_per_logits_ / ns_per_row_; }
  /// Prompt work that fits into a step of `limit_ns` with `decoding` decode rows. If decoding alone exceeds the limit,
  /// prompts still get half of that time, so that they do not starve.
  double PromptWork(int64_t decoding, double limit_ns, double unmeasured) const;

 private:
  using ByRows = std::array<double, 16>;  // by the number of rows, in powers of two; 0 = not measured
  ByRows decode_ns_{};
  ByRows draft_row_ns_{};  // of each draft row
  double ns_per_layer_draft_ = 0;
  double ns_per_row_ = 0;
  double ns_per_logits_ = 0;
  double excess_ = 1.1;  // the longest 1 % of gaps, relative to the predicted duration of the steps aimed at
};

}  // namespace ringside
