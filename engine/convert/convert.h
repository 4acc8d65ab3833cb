// Converts a model's files between any formats that we load. Memory for a few tensors at a time, in
// float32, for any size of model. THREAD: one.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "engine/model/weights/model_files.h"
#include "kernels/tensor.h"

namespace ringside {

struct ConvertOptions {
  std::string from, to;
  std::optional<ModelFiles::Format> format;  // nullopt: GGUF for a path that ends in .gguf, else safetensors
  /// Type of the matrices and, except for GGUF, of everything. nullopt: the type of the matrices, or float32 if they
  /// have several types or are quantized; a value that the type cannot represent is then an error.
  std::optional<DType> dtype;
  int64_t gpus = 1;  // number of FasterTransformer parts
  bool tokenizer = true;
};

/// Writes the file or folder `to` under a temporary name, reads it back as the server would, and renames it if every
/// trait of the network, the tokenizer, the chat template and the sampling defaults is preserved. After an error
/// nothing is left. ERRORS: kInvalidArgument, with the trait, if the target format cannot store it, or if `to` exists;
/// kIo; as OpenModelFiles and CheckTensors.
Status Convert(const ConvertOptions& options);

}  // namespace ringside
