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
#pragma once

#include <cstdint>

namespace ringside {

struct RouterTraits {
  bool sigmoid = false;
  int64_t groups = 1, groups_used = 1;
  bool group_highest = false;
  float scale = 1;
  const float* correction = nullptr;  // [experts], on the device
  const float* scales = nullptr;      // [experts], on the device

  /// A softmax router without corrections, groups or scales.
  bool plain() const { return !sigmoid && groups == 1 && scale == 1 && correction == nullptr && scales == nullptr; }
};

}  // namespace ringside
