// LoRA adapters (Hu et al. 2021) as files have them: for some of a model's matrices W two narrow ones, A and B, so that
// the adapted model computes W x + s B A x. Two formats are read, as hostile input: a folder of PEFT's
// (adapter_config.json, adapter_model.safetensors) and a GGUF file of llama.cpp's. Plain data; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringside {

/// Most rows of an A. Ranks in use are 4 to 256.
inline constexpr int64_t kMaxAdapterRank = 1024;

/// The A and B of one matrix, whose number of inputs is A's.
struct AdapterMatrix {
  std::string module;  // the matrix's tensor without ".weight", as the model's file spells it
  int64_t rank = 0, inputs = 0, outputs = 0;
  std::vector<float> a;  // [rank, inputs]
  std::vector<float> b;  // [outputs, rank], times s
};

struct AdapterFile {
  bool gguf = false;
  std::string architecture;             // of the model that it was made for, as GGUF says it
  std::vector<AdapterMatrix> matrices;  // by their modules' names; at least one

  /// Of all that changes a number.
  std::array<uint8_t, 16> Digest() const;
};

/// `path` is a folder in PEFT's format or a GGUF file. kNotFound or kIo if it cannot be read; kCorruption, naming the
/// tensor, where one is missing, misshapen or not finite, or a rank is none or not what the settings say;
/// kInvalidArgument, naming it, for what we lack: another kind of adapter than LoRA, DoRA, biases, whole modules,
/// adapted embeddings.
Result<AdapterFile> ReadAdapter(const std::string& path);

}  // namespace ringside
