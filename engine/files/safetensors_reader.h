// Safetensors files, one or a folder of shards with model.safetensors.index.json, memory-mapped and read as hostile
// input: every offset, shape and name is checked before use. Immutable after Open; any thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/files/file_tensor.h"

namespace ringside {

class MappedFile;

class SafeTensors {
 public:
  /// One file. kNotFound or kIo if it cannot be read; kCorruption, saying what and where, if it is not sound: the
  /// tensors must fill the data section without gap or overlap. Data may lie at any address: see FileTensor.
  static Result<SafeTensors> OpenFile(const std::string& path);
  /// `folder`/model.safetensors or, without it, every shard of `folder`/model.safetensors.index.json, which must name
  /// exactly the tensors that are there.
  static Result<SafeTensors> OpenFolder(const std::string& folder);

  const std::vector<FileTensor>& tensors() const { return tensors_; }
  /// Names and element types of tensors that are sound but of a type we do not compute with (I64, BOOL ...).
  const std::vector<std::pair<std::string, std::string>>& unsupported() const { return unsupported_; }

 private:
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<FileTensor> tensors_;
  std::vector<std::pair<std::string, std::string>> unsupported_;
};

}  // namespace ringside
