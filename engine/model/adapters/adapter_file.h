// LoRA adapters (Hu et al. 2021) as stored in files: for some of a model's matrices W, two narrow matrices A and B, so
// that the adapted model computes W x + s B A x. Reads two formats as hostile input: a PEFT folder
// (adapter_config.json, adapter_model.safetensors) and a llama.cpp GGUF file. Plain data. THREAD: any.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringside {

/// Maximum rank. Ranks in use are 4 to 256.
inline constexpr int64_t kMaxAdapterRank = 1024;

/// A and B of one matrix; `inputs` is the width of A.
struct AdapterMatrix {
  std::string module;  // name of the matrix's tensor without ".weight", as in the model's file
  int64_t rank = 0, inputs = 0, outputs = 0;
  std::vector<float> a;  // [rank, inputs]
  std::vector<float> b;  // [outputs, rank], times s
};

struct AdapterFile {
  bool gguf = false;
  std::string architecture;             // of the base model, as GGUF names it
  std::vector<AdapterMatrix> matrices;  // sorted by module name; at least one

  /// Digest of everything that affects a result.
  std::array<uint8_t, 16> Digest() const;
};

/// Reads a PEFT folder or a GGUF file. ERRORS: kNotFound or kIo if it cannot be read; kCorruption, with the tensor, if
/// one is missing, misshapen or not finite, or a rank is invalid or differs from the settings; kInvalidArgument, with
/// the name, for an unsupported feature: an adapter other than LoRA, DoRA, biases, whole modules, adapted embeddings.
Result<AdapterFile> ReadAdapter(const std::string& path);

}  // namespace ringside
