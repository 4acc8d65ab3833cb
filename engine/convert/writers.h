// Writers of the output formats, one tensor at a time. THREAD: one. ERRORS: kIo if a file cannot be written.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "engine/convert/network_kind.h"
#include "engine/convert/network_values.h"

namespace ringside {

/// The model to write.
struct Conversion {
  const NetworkPlan& plan;
  const NetworkValues& values;
  DType dtype = DType::kF32;
  bool exact = false;  // see Encode
  int64_t gpus = 1;

  Result<std::vector<std::byte>> Bytes(const PlannedTensor& planned, DType as) const;
};

/// model.safetensors in a folder.
Status WriteSafetensors(const Conversion& conversion, const std::string& folder);
/// A single file; vectors in float32, as llama.cpp requires.
Status WriteGguf(const Conversion& conversion, const std::vector<GgufEntry>& metadata, const std::string& path);
/// model.*.bin in a folder, for `gpus` GPUs. ERRORS: kInvalidArgument if the heads or the MLP cannot be split that way.
Status WriteFasterTransformer(const Conversion& conversion, const std::string& folder);

}  // namespace ringside
