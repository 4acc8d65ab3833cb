// Checkpoint folders of NVIDIA's FasterTransformer: config.ini, and a file of bare values for each tensor
// (model.*.bin; of T5 encoder.*, decoder.*, shared.* and lm_head.*), or for each piece of one that several GPUs share
// (model.*.0.bin, model.*.1.bin ...). Memory-mapped and read as hostile input; what shape the values have only the
// network's plan knows. Immutable after Open; any thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/files/ini_file.h"
#include "kernels/tensor.h"

namespace ringside {

class MappedFile;

class FasterTransformerFolder {
 public:
  /// The folder that has the config.ini: `folder`, or of its subfolders "1-gpu", "8-gpu" ... the one with the fewest
  /// pieces. Nothing where there is none.
  static std::optional<std::string> Find(const std::string& folder);

  /// Maps every such file beside the config.ini of `folder`, which is as Find says. kNotFound or kIo if something
  /// cannot be read; kInvalidArgument, naming it, for a link that leads out of `folder`; kCorruption for a damaged
  /// config.ini and for pieces of which one is missing.
  static Result<FasterTransformerFolder> Open(const std::string& folder);

  const std::string& path() const { return path_; }  // of config.ini's folder
  const IniFile& config() const { return config_; }
  /// The bytes of a tensor, piece by piece.
  struct Pieces {
    std::vector<std::span<const std::byte>> bytes;
    bool numbered = false;  // the files have numbers, even if there is one only
  };
  /// By their files' names up to the number: "model.wte", "model.layers.0.attention.dense.weight".
  const std::map<std::string, Pieces, std::less<>>& tensors() const { return tensors_; }

 private:
  std::string path_;
  IniFile config_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, Pieces, std::less<>> tensors_;
};

/// kInvalidArgument, naming it, where `file` is a link that leads out of `folder`: whoever hands over a folder must not
/// thereby say what else of this machine is read.
Status CheckInside(const std::string& folder, const std::string& file);

}  // namespace ringside
