// The formats that a model is written to, tensor after tensor. One thread; kIo where a file cannot be written.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "engine/convert/network_kind.h"
#include "engine/convert/network_values.h"

namespace ringside {

/// What is to be written.
struct Conversion {
  const NetworkPlan& plan;
  const NetworkValues& values;
  DType dtype = DType::kF32;
  bool exact = false;  // as Encode has it
  int64_t gpus = 1;

  Result<std::vector<std::byte>> Bytes(const PlannedTensor& planned, DType as) const;
};

/// model.safetensors in a folder.
Status WriteSafetensors(const Conversion& conversion, const std::string& folder);
/// A whole file; vectors in float32, as llama.cpp wants them.
Status WriteGguf(const Conversion& conversion, const std::vector<GgufEntry>& metadata, const std::string& path);
/// model.*.bin in a folder, for so many GPUs. kInvalidArgument if these cannot share the heads or the MLP.
Status WriteFasterTransformer(const Conversion& conversion, const std::string& folder);

}  // namespace ringside
