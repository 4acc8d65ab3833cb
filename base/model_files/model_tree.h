// The models below a folder: found by the names of files, not opened. Shared by the server and its clients. THREAD:
// any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringside {

struct FoundModel {
  std::string name;   // of a GGUF file, without folders and ending; of a folder with safetensors, relative to the root
  std::string path;   // for --model
  std::string below;  // the path without the root and ".gguf": unique among the models of a root, up to a folder x
                      // and a file x.gguf
  uint64_t bytes = 0;
  bool is_file = false;
};

/// The models in `root` and the folders below it, in order of paths: GGUF files, split ones as one model, and folders
/// with config.json and safetensors. Unreadable folders and names that begin with '.' are skipped. Bounded in depth and
/// number: a link to a file system's root must not hang the caller.
std::vector<FoundModel> FindModelsBelow(const std::string& root);

}  // namespace ringside
