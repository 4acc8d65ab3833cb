// How a mixture's router logits become expert weights, as plain data. The defaults are a softmax over all experts.
//
//   score  = softmax of the logits, or with `sigmoid` the sigmoid of each
//   choice = score + correction[e] (load balancing without an auxiliary loss, Wang et al. 2024)
//   groups: the experts are `groups` equal runs; only the `groups_used` runs with the largest sum of their two highest
//           choices take part (DeepSeek-V3, DeepSeek-AI 2024), or with `group_highest` those with the highest choice
//           (DeepSeek-V2)
//   the top_k experts with the highest choice are selected, ties to the lower index
//   weight = scale * score, divided by the sum of the selected scores if they are normalised, times scales[e] if there
//            are any (Gemma 4)
//
// With `margin`, two experts are selected one after the other, without the first one for the second. An expert's weight
// is a softmax over the logits l of those with (l_max - l) / max(|l|, l_max) <= margin, where l_max is that of the
// selected one (SparseMixer, Liu et al. 2023; Phi-3.5-MoE).
#pragma once

#include <cstdint>

namespace ringside {

constexpr int64_t kMaxExpertGroups = 32;

struct RouterTraits {
  bool sigmoid = false;
  int64_t groups = 1, groups_used = 1;  // up to kMaxExpertGroups
  bool group_highest = false;
  float scale = 1;
  float margin = 0;
  bool scales_input = false;          // the weight multiplies the expert's input instead of its output (Llama 4)
  const float* correction = nullptr;  // [experts], on the device
  const float* scales = nullptr;      // [experts], on the device

  /// A softmax router without corrections, groups or scales.
  bool plain() const {
    return !sigmoid && groups == 1 && scale == 1 && margin == 0 && correction == nullptr && scales == nullptr;
  }

  friend bool operator==(const RouterTraits&, const RouterTraits&) = default;
};

}  // namespace ringside
