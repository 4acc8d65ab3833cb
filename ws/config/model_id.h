// The name under which clients ask for a model that was given none. A pure function.
#pragma once

#include <string>

namespace ringside {

/// A short one, of `a-z 0-9 . _ -`, from the path of its file or folder: "smollm2-135m-instruct" of
/// "SmolLM2-135M-Instruct.Q4_1.gguf". Where that says nothing ("model.gguf", a hash), from `own_name`, which the file
/// has for itself.
std::string ModelId(const std::string& path, const std::string& own_name);

}  // namespace ringside
