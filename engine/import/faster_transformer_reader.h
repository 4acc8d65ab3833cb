// Checkpoint folders of NVIDIA's FasterTransformer: config.ini, and a file of raw values for each tensor (model.*.bin;
// for T5 encoder.*, decoder.*, shared.* and lm_head.*), or for each GPU's part of one (model.*.0.bin, model.*.1.bin
// ...). Memory-mapped, hostile input; the shapes come from the network's plan. Immutable after Open. THREAD: any.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/import/ini_file.h"
#include "kernels/tensor.h"

namespace ringside {

class MappedFile;

class FasterTransformerFolder {
 public:
  /// The folder with the config.ini: `folder`, or its subfolder "1-gpu", "8-gpu" ... with the fewest parts. nullopt if
  /// there is none.
  static std::optional<std::string> Find(const std::string& folder);

  /// Maps all such files next to the config.ini of `folder` (as returned by Find). ERRORS: kNotFound or kIo if
  /// something cannot be read; kInvalidArgument, with the name, for a link to a place outside `folder`; kCorruption for
  /// a damaged config.ini or a missing part.
  static Result<FasterTransformerFolder> Open(const std::string& folder);

  const std::string& path() const { return path_; }  // config.ini's folder
  const IniFile& config() const { return config_; }
  /// The bytes of a tensor, part by part.
  struct Pieces {
    std::vector<std::span<const std::byte>> bytes;
    bool numbered = false;  // the files are numbered, even if there is only one
  };
  /// By file name up to the number: "model.wte", "model.layers.0.attention.dense.weight".
  const std::map<std::string, Pieces, std::less<>>& tensors() const { return tensors_; }

 private:
  std::string path_;
  IniFile config_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, Pieces, std::less<>> tensors_;
};

}  // namespace ringside
