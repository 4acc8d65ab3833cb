// Constant factors of the parts of a layer (maximal update parametrization, Yang et al. 2022; Falcon-H1). Plain data.
#pragma once

#include <algorithm>
#include <array>

namespace ringside {

struct LayerFactors {
  float attended = 1;   // attention's result
  float recurrent = 1;  // the recurrence's result
  float gate = 1;       // the MLP's gate, before the activation
  float mlp = 1;        // the MLP's hidden columns
  // Mamba-2's projected gate, values, keys, queries and rates.
  std::array<float, 5> recurrent_inputs = {1, 1, 1, 1, 1};

  bool scales_recurrence() const { return recurrent_inputs != LayerFactors{}.recurrent_inputs; }
  bool any() const { return attended != 1 || recurrent != 1 || gate != 1 || mlp != 1 || scales_recurrence(); }
};

}  // namespace ringside
