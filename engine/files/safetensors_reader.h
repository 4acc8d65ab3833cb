// Safetensors files, one or a folder of shards with model.safetensors.index.json, memory-mapped and read as hostile
// input: every offset, shape and name is checked before use. Immutable after Open; any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/files/file_tensor.h"

namespace ringside {

class MappedFile;

/// A tensor of a type that we do not compute with (I64, BOOL ...).
struct OtherTensor {
  std::string name, type;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

class SafeTensors {
 public:
  /// One file. kNotFound or kIo if it cannot be read; kCorruption, saying what and where, if it is not sound: the
  /// tensors must fill the data section without gap or overlap. Data may lie at any address: see FileTensor.
  static Result<SafeTensors> OpenFile(const std::string& path);
  /// `folder`/model.safetensors or, without it, every shard of `folder`/model.safetensors.index.json, which must name
  /// exactly the tensors that are there.
  static Result<SafeTensors> OpenFolder(const std::string& folder);

  const std::vector<FileTensor>& tensors() const { return tensors_; }
  /// Those that are sound, too, but no numbers to compute with as they are.
  const std::vector<OtherTensor>& others() const { return others_; }

 private:
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<FileTensor> tensors_;
  std::vector<OtherTensor> others_;
};

}  // namespace ringside
