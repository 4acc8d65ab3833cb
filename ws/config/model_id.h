// Derives the model id that clients use if none is configured. A pure function.
#pragma once

#include <string>

namespace ringside {

/// Returns a short id of `a-z 0-9 . _ -` from the path of the model's file or folder: "smollm2-135m-instruct" for
/// "SmolLM2-135M-Instruct.Q4_1.gguf". If the path is not descriptive ("model.gguf", a hash), uses `own_name`, the name
/// stored in the file.
std::string ModelId(const std::string& path, const std::string& own_name);

}  // namespace ringside
