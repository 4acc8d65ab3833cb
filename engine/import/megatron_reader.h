// Checkpoints of Megatron-LM and NeMo: settings and weights of a GPT, sharded over GPUs. Megatron-LM: a folder with
// mp_rank_00/model_optim_rng.pt, mp_rank_01 ..., or its parent folder. NeMo: a .nemo archive, or the folder it was
// unpacked to: model_config.yaml and model_weights.ckpt, or mp_rank_00/model_weights.ckpt ... Memory-mapped, hostile
// input; no code in it is executed. Immutable after Open. THREAD: any.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/import/torch_reader.h"

namespace ringside {

class MappedFile;

class MegatronCheckpoint {
 public:
  static bool Is(const std::string& path);
  /// ERRORS: kNotFound or kIo if something cannot be read; kInvalidArgument, with the name, for a link to a place
  /// outside the folder and for anything that TorchFile rejects; kCorruption for damaged files and missing settings.
  static Result<MegatronCheckpoint> Open(const std::string& path);

  const std::string& path() const { return path_; }  // the archive, or the folder of the ranks
  /// By name in Megatron's arguments, or at the top level of NeMo's model_config.yaml.
  using Settings = std::map<std::string, TorchFile::Value, std::less<>>;
  const Settings& settings() const { return settings_; }
  /// Checkpoint version of Megatron's files: determines the layout of queries, keys and values. NeMo uses that of
  /// version 3.
  double version() const { return version_; }
  /// The archive members with this name suffix: NeMo's copies of GPT-2's tokenizer files; empty if there are none.
  std::string_view vocab() const { return vocab_; }    // "vocab.json"
  std::string_view merges() const { return merges_; }  // "merges.txt"
  /// Each GPU's tensors by name: "model.language_model.encoder.layers.0.mlp.dense_h_to_4h.weight".
  const std::vector<std::map<std::string, FileTensor, std::less<>>>& ranks() const { return ranks_; }

 private:
  Status AddRank(std::span<const std::byte> archive, const std::string& source);

  std::string path_;
  Settings settings_;
  double version_ = 3;
  std::string_view vocab_, merges_;
  std::vector<std::map<std::string, FileTensor, std::less<>>> ranks_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
};

}  // namespace ringside
