// Checkpoints of Megatron-LM and NeMo: settings and weights of a GPT, whose tensors several GPUs shared. Megatron-LM's
// is a folder with mp_rank_00/model_optim_rng.pt, mp_rank_01 ..., or the folder above it; NeMo's a .nemo archive, or
// the folder that one was unpacked to: model_config.yaml and model_weights.ckpt, or mp_rank_00/model_weights.ckpt ...
// Memory-mapped, read as hostile input, and nothing that it says is run. Immutable after Open; any thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/files/torch_reader.h"

namespace ringside {

class MappedFile;

class MegatronCheckpoint {
 public:
  static bool Is(const std::string& path);
  /// kNotFound or kIo if something cannot be read; kInvalidArgument, naming it, for a link that leads out of the folder
  /// and what TorchFile refuses; kCorruption for damaged files and for settings that are missing.
  static Result<MegatronCheckpoint> Open(const std::string& path);

  const std::string& path() const { return path_; }  // of the archive, or the folder of the ranks
  /// By their names in Megatron's arguments or in the outermost level of NeMo's model_config.yaml.
  using Settings = std::map<std::string, TorchFile::Value, std::less<>>;
  const Settings& settings() const { return settings_; }
  /// Of Megatron's files: decides how queries, keys and values lie. NeMo's are as those of version 3.
  double version() const { return version_; }
  /// The members of an archive that end so, as NeMo names the files of GPT-2's tokenizer; empty if there is none.
  std::string_view vocab() const { return vocab_; }    // "vocab.json"
  std::string_view merges() const { return merges_; }  // "merges.txt"
  /// What each GPU had, by tensors' names: "model.language_model.encoder.layers.0.mlp.dense_h_to_4h.weight".
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
