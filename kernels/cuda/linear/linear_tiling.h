// Tiles and split-K factors of the linear kernels, for linear_plan.cpp. Pure.
#pragma once

#include <optional>
#include <utility>

#include "kernels/cuda/linear/linear_plan.h"

namespace ringside::cuda {

/// A layer on a device, and the operations to fuse with it.
struct LinearCase {
  const DeviceTraits& device;
  const LinearLayer& layer;
  bool norm = false;
  LinearEpilogue epilogue = LinearEpilogue::kNothing;
  MatrixLayout product = {};

  const LinearTuning& tuning() const { return *device.tuning; }
  bool gate_up() const { return epilogue == LinearEpilogue::kSiluMultiply; }
  /// Outputs that are stored: with gate-up one for each gate and its up.
  int64_t results() const { return gate_up() ? layer.total() / 2 : layer.total(); }
  bool small() const { return layer.k * layer.total() <= tuning().small_elements; }
};

/// Whether rows of x fit in shared memory next to the pipeline stages.
bool FitsGemv(const LinearCase& of);
LinearTile GemvTile(const LinearCase& of);
/// `stages` is below kMinStages if the rows do not fit.
LinearTile BlockQuantGemvTile(const LinearCase& of);
/// Two layers in one launch: the device is divided in proportion to their bytes.
std::pair<LinearTile, LinearTile> TwoBlockQuantGemvTiles(const LinearCase& of, const LinearCase& next);

LinearTile SmallGemmTile(const LinearCase& of);
LinearTile WgmmaGemmTile(const LinearCase& of);
LinearTile W8A16GemmTile(const LinearCase& of);
LinearTile BlockQuantGemmTile(const LinearCase& of);
/// As BlockQuantGemmTile for two layers in one launch, which have one split-K factor.
std::pair<LinearTile, LinearTile> TwoBlockQuantGemmTiles(const LinearCase& of, const LinearCase& next);
LinearTile Fp8GemmTile(const LinearCase& of);

}  // namespace ringside::cuda
