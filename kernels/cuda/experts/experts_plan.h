// One mixture of experts as its kernels see it: where weights lie, and the memory of what passes between the kernels.
// Plain data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

/// One matrix of an expert: rows of T, or tiles of blocks (linear/grouped_layout.h).
struct PlacedMatrix {
  const void* data;
  const float* units;  // of tiles: a row's; else null
  int32_t first_row;   // that is the expert's: gate and up may lie in one matrix
  int32_t bits;        // of an element: 16, or of tiles 4, 5, 6 or 8
};

/// One expert in device memory: gate and up [F, D], of the same bits, and out [D, F].
struct PlacedExpert {
  PlacedMatrix gate, up, out;
  const float *in_bias, *out_bias;  // [2F], [D]; or null
  int64_t inner;                    // F
};

/// What an operation has beside its x and y.
struct ExpertsPlan {
  Tensor router;                         // [T, experts], float32
  const PlacedExpert* placed = nullptr;  // [experts]
  int32_t used = 0, taken = 0;           // experts of a row: that the router chooses, and with the shared one
  bool normalised = false;
  int64_t widest = 0;                        // F of the widest
  bool in_tiles = false, out_tiles = false;  // of all experts: whether gate and up, and out, are tiles

  friend bool operator==(const ExpertsPlan&, const ExpertsPlan&) = default;
};

/// Some of the rows that one expert takes: order[first ... first + count).
struct ExpertRows {
  int32_t expert, first, count, reserved;
};

/// Up to so many rows go to kernels that read weights once for all of them, more go by tiles of kExpertTileRows: a step's
/// rows often take the same experts.
constexpr int64_t kFewExpertRows = 16, kExpertTileRows = 64;

/// A call of some rows. What a row takes is a place: row * taken + i, its i-th expert.
struct ExpertsCall {
  ExpertsPlan plan;
  Activation activation = Activation::kSilu;
  Tensor x, y;               // [T, D]; x of 16 bits, y float32
  int32_t* ids = nullptr;    // [places], ascending in each row; of many rows
  float* weights = nullptr;  // [places]
  int32_t* order = nullptr;  // [places]: the places, expert by expert and row by row
  ExpertRows* groups = nullptr;
  int32_t group_count = 0;  // of them; some may be of no rows
  void* mid = nullptr;      // [places in `order`, widest]: activation(gate) * up
  float* parts = nullptr;   // [places, D]: what the experts give

  int64_t places() const { return x.rows * plan.taken; }
  bool few() const { return x.rows <= kFewExpertRows; }

  /// Of groups, in the way of few rows or of many.
  static int64_t GroupCount(const ExpertsPlan& plan, int64_t rows) {
    const int64_t places = rows * plan.taken;
    return rows <= kFewExpertRows ? std::min(plan.router.cols, places) : places / kExpertTileRows + plan.router.cols;
  }
};

}  // namespace ringside::cuda
