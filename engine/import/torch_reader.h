// Reads torch.save files without executing anything: the unpickler knows dictionaries, lists, plain values and tensors,
// and treats all else as unknown values. Hostile input. Immutable after Read. THREAD: any.
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
  /// `archive` is borrowed. ERRORS: kCorruption, with `source`, for a damaged file; kInvalidArgument for a pickle
  /// larger than any model's, or a tensor that is not contiguous.
  static Result<TorchFile> Read(std::span<const std::byte> archive, const std::string& source);

  using Value = std::variant<bool, int64_t, double, std::string, FileTensor>;
  /// Values of nested dictionaries (and Namespace attributes) with text keys, by path: "args.num_layers",
  /// "model.encoder.weight". Without lists, unknown values, and tensors of unsupported types.
  const std::map<std::string, Value, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace ringside
