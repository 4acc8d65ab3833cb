// One mixture of experts as its kernels see it: where weights lie, and the memory of what passes between the kernels.
// Plain data.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cuda/host_device.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

/// One matrix of an expert: rows of T, or tiles of blocks (linear/grouped_layout.h).
struct PlacedMatrix {
  const void* data;
  const float* units;  // of tiles: a row's; else null
  int32_t first_row;   // that is the expert's: gate and up may lie in one matrix
  int32_t bits;        // of an element: 16, or as tiles have them (TileOf)
};

/// One expert in device memory: gate and up [F, D], of the same bits, and out [D, F].
struct PlacedExpert {
  PlacedMatrix gate, up, out;
  const float *in_bias, *out_bias;  // [2F], [D]; or null
  int64_t inner;                    // F
};

/// A bit for each type of tiles.
constexpr uint32_t TileTypeBit(DType type) {
  return HasGroupScales(type) ? 1u << (static_cast<int>(type) - static_cast<int>(DType::kGrouped2)) : 0;
}
/// The first type whose bit there is; there is one.
constexpr DType FirstTileType(uint32_t types) {
  return static_cast<DType>(static_cast<int>(DType::kGrouped2) + std::countr_zero(types));
}

/// What an operation has beside its x and y.
struct ExpertsPlan {
  Tensor router;                         // [T, experts], float32
  const PlacedExpert* placed = nullptr;  // [experts]
  int32_t used = 0, taken = 0;           // experts of a row: that the router chooses, and with the shared one
  bool normalised = false;
  bool fixed = false;  // a row's bits must depend on nothing but the row: then calls have up to kFewExpertRows
  int64_t inner = 0, last_inner = 0;  // F of each but the last, which may be the shared one
  // The types of gates and ups, and of what comes out, that lie in tiles (TileTypeBit); 0: all have 16 bits an element.
  uint32_t in_types = 0, out_types = 0;

  bool in_tiles() const { return in_types != 0; }
  bool out_tiles() const { return out_types != 0; }
  /// F of the widest.
  RINGSIDE_HOST_DEVICE int64_t widest() const { return inner > last_inner ? inner : last_inner; }

  friend bool operator==(const ExpertsPlan&, const ExpertsPlan&) = default;
};

/// Some of the rows that one expert takes: order[first ... first + count).
struct ExpertRows {
  int32_t expert, first, count, reserved;
};

/// How products are computed, and the rows of an expert that read its weights once.
enum class ExpertsWay : int32_t {
  kIntegers,  // kIntegerExpertRows; with weights in tiles, not of 8 bits, as integers
  kFew,       // kFewExpertRows
  kSeveral,   // as many; with weights in tiles, of which each is a warp's own
  kMany,      // kManyExpertRows
};
constexpr int64_t kIntegerExpertRows = 4, kFewExpertRows = 16, kManyExpertRows = 64;

/// A call of some rows. What a row takes is a place: row * taken + i, its i-th expert.
struct ExpertsCall {
  ExpertsPlan plan;
  ExpertsWay way = ExpertsWay::kFew;
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
  static int64_t GroupRows(ExpertsWay way) {
    if (way == ExpertsWay::kIntegers) return kIntegerExpertRows;
    return way == ExpertsWay::kMany ? kManyExpertRows : kFewExpertRows;
  }
  static int64_t GroupCount(const ExpertsPlan& plan, ExpertsWay way, int64_t rows) {
    const int64_t places = rows * plan.taken, most = places / GroupRows(way) + plan.router.cols;
    return rows <= kFewExpertRows ? std::min(most, places) : most;
  }
};

}  // namespace ringside::cuda
