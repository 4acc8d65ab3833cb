// The parameters of a vision tower on a backend's device, and their loading. Made once at load, const afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/files/file_tensor.h"
#include "engine/vision/vision_plan.h"
#include "kernels/backend.h"

namespace ringside {

/// A float32 vector on the device; empty if the tower has none.
struct VisionVector {
  Buffer buffer;
  const float* data() const { return static_cast<const float*>(buffer.data()); }
};

struct VisionLayer {
  VisionVector norm, norm_bias;  // before attention
  std::vector<Weight> qkv;       // three, or one with all rows
  VisionVector qkv_bias;
  Weight out;
  VisionVector out_bias;
  VisionVector mlp_norm, mlp_norm_bias;
  std::vector<Weight> mlp_in;  // gate and up, or up alone
  VisionVector mlp_in_bias;
  Weight mlp_out;
  VisionVector mlp_out_bias;
};

/// Maps a token's patches to a row of the text network.
struct VisionProjector {
  VisionVector norm, norm_bias;
  Weight first, second;
  VisionVector first_bias, second_bias;
};

struct VisionWeights {
  Weight patch;  // [D, patch_columns]
  VisionVector patch_bias;
  VisionVector class_row;
  Weight positions;
  std::vector<float> position_table;  // [table_side^2, D], in host memory
  VisionVector input_norm, input_norm_bias;
  std::vector<VisionLayer> layers;
  VisionVector output_norm, output_norm_bias;
  Weight merger;  // columns (row, column, channel)
  VisionProjector projector;
  std::vector<VisionProjector> deep;  // by deep layer
  int64_t bytes = 0;                  // on the device
};

/// Columns of the patch matrix: a patch's values, and zeros up to a whole block.
inline int64_t PatchColumns(const VisionSpec& spec) { return (spec.patch_values() + 31) / 32 * 32; }

/// Uploads the planned tensors, in their file types; tensors[i] is that of plan.tensors[i], with its shape. ERRORS:
/// kInvalidArgument, with the tensor, for a quantized type; kOverloaded if the device has no memory.
Result<VisionWeights> LoadVisionWeights(const VisionPlan& plan, std::span<const FileTensor> tensors, Backend& backend);

}  // namespace ringside
