// How long steps take, learned from those that were: so that a step's size is chosen by time, whatever the model and
// the device. Engine thread only.
#pragma once

#include <array>
#include <cstdint>

namespace ringside {

class StepTime {
 public:
  /// Notes a step of `decoding` rows that decode and prompts' rows worth `prompt_work`: a row that attends to nothing
  /// counts 1. `scored`: prompts' rows with logits.
  void Note(int64_t decoding, double prompt_work, int64_t took_ns, int64_t scored = 0);

  /// Of a step that only decodes; 0 = nothing was measured.
  double DecodeNs(int64_t decoding) const;
  /// Of prompts' rows, beside whatever else; 0 = nothing was measured.
  double PromptNs(double prompt_work) const { return prompt_work * ns_per_row_; }
  /// The work of a row's logits; 0 = nothing was measured.
  double LogitsWork() const { return ns_per_row_ == 0 ? 0 : ns_per_logits_ / ns_per_row_; }
  /// How much work of prompts fits into a step of `limit_ns` beside `decoding` rows. A step that decodes for longer
  /// than that lets prompts have half as much again, or they would never be computed.
  double PromptWork(int64_t decoding, double limit_ns, double unmeasured) const;

 private:
  std::array<double, 16> decode_ns_{};  // by the number of rows, in powers of two
  double ns_per_row_ = 0;
  double ns_per_logits_ = 0;
};

}  // namespace ringside
