// The output of a vision tower for one picture: the embeddings of its tokens, markers excluded. Plain data, in host
// memory.
#pragma once

#include <cstdint>
#include <vector>

namespace ringside {

struct ImageRows {
  int64_t columns = 0;        // of the text network's stream, a multiple of them with ModelSpec::image_layers
  std::vector<float> values;  // [rows, columns]

  int64_t rows() const { return static_cast<int64_t>(values.size()) / columns; }
  const float* Row(int64_t row) const { return values.data() + row * columns; }
};

}  // namespace ringside
