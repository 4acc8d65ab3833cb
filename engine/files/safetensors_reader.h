// Safetensors files, one or a folder of shards with model.safetensors.index.json, memory-mapped, hostile input: every
// offset, shape and name is checked before use. Immutable after Open. THREAD: any.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/files/file_tensor.h"

namespace ringside {

class MappedFile;

/// A tensor of an unsupported type (I64, BOOL ...).
struct OtherTensor {
  std::string name, type;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

class SafeTensors {
 public:
  /// One file. Data may be unaligned: see FileTensor. ERRORS: kNotFound or kIo if it cannot be read; kCorruption, with
  /// reason and place, if it is malformed: the tensors must fill the data section without gap or overlap.
  static Result<SafeTensors> OpenFile(const std::string& path);
  /// `folder`/model.safetensors or, without it, every shard in `folder`/model.safetensors.index.json, which must name
  /// exactly the tensors in the shards.
  static Result<SafeTensors> OpenFolder(const std::string& folder);

  const std::vector<FileTensor>& tensors() const { return tensors_; }
  /// Well-formed tensors of types that we do not compute with directly.
  const std::vector<OtherTensor>& others() const { return others_; }

 private:
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<FileTensor> tensors_;
  std::vector<OtherTensor> others_;
};

}  // namespace ringside
