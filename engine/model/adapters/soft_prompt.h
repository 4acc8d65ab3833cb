// Soft prompts: rows that stand in a conversation where its first tokens' embeddings would, found by training (prompt
// tuning, Lester et al. 2021; p-tuning, Liu et al. 2021, whose encoder has made them by then). Read as hostile input:
// a folder of PEFT's (adapter_config.json, adapter_model.safetensors) or a safetensors file with one matrix. Plain
// data; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringside {

/// Most rows of a soft prompt. Those in use have 8 to 200.
inline constexpr int64_t kMaxVirtualTokens = 4096;

struct SoftPrompt {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;  // [rows, columns]

  /// Of all that changes a number.
  std::array<uint8_t, 16> Digest() const;
};

/// kNotFound or kIo if it cannot be read; kCorruption, naming the tensor, where it is missing, misshapen or not finite,
/// or other than the settings say; kInvalidArgument, naming it, for another kind of adapter, prompts of encoders and
/// decoders, tensors besides.
Result<SoftPrompt> ReadSoftPrompt(const std::string& path);

}  // namespace ringside
