// Files of torch.save, read without running anything that they say: their pickle is taken apart by a reader that knows
// dictionaries, lists, plain values and tensors, and takes everything else for a value of which nothing is known. Read
// as hostile input. Immutable after Read; any thread.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"
#include "engine/files/file_tensor.h"

namespace ringside {

class TorchFile {
 public:
  /// `archive` is borrowed. kCorruption, naming `source`, for a damaged file; kInvalidArgument for a pickle that is
  /// larger than any of a model's, or a tensor that is not stored in the order of its rows.
  static Result<TorchFile> Read(std::span<const std::byte> archive, const std::string& source);

  using Value = std::variant<bool, int64_t, double, std::string, FileTensor>;
  /// What stands in dictionaries (and in the attributes of a Namespace) under texts, by its path: "args.num_layers",
  /// "model.encoder.weight". Lists and other values are left out, as are tensors of types that we do not compute with.
  const std::map<std::string, Value, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace ringside
