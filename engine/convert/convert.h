// `ringside convert`: a model's files from any format that we load to another. One thread; memory for a few tensors at
// a time, in float32, however large the model is.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "engine/model/weights/model_files.h"
#include "kernels/tensor.h"

namespace ringside {

struct ConvertOptions {
  std::string from, to;
  std::optional<ModelFiles::Format> format;  // nothing: GGUF for a path that ends in .gguf, else safetensors
  /// Of the matrices, and but for GGUF of everything. Nothing: what the matrices have, float32 where that is several or
  /// quantised; a value that it cannot hold is refused then.
  std::optional<DType> dtype;
  int64_t gpus = 1;  // FasterTransformer's pieces
  bool tokenizer = true;
};

/// Writes the file or folder `to` under another name, reads it as the server would, and gives it its name where every
/// trait of the network, the tokenizer, the chat template and the sampling defaults came back. Nothing is left where
/// anything fails. kInvalidArgument, naming it, for what the other format cannot hold, and if there is a `to` already;
/// else as OpenModelFiles and CheckTensors, and kIo.
Status Convert(const ConvertOptions& options);

}  // namespace ringside
