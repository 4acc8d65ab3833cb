// Soft prompts: trained rows that replace the embeddings of a conversation's first tokens (prompt tuning, Lester et al.
// 2021; p-tuning, Liu et al. 2021, exported without its encoder). Reads a PEFT folder (adapter_config.json,
// adapter_model.safetensors) or a safetensors file with one matrix, as hostile input. Plain data. THREAD: any.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringside {

/// Maximum rows of a soft prompt. Those in use have 8 to 200.
inline constexpr int64_t kMaxVirtualTokens = 4096;

struct SoftPrompt {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;  // [rows, columns]

  /// Digest of everything that affects a result.
  std::array<uint8_t, 16> Digest() const;
};

/// ERRORS: kNotFound or kIo if it cannot be read; kCorruption, with the tensor, if it is missing, misshapen, not
/// finite, or differs from the settings; kInvalidArgument, with the name, for another kind of adapter, a prompt for an
/// encoder-decoder model, or additional tensors.
Result<SoftPrompt> ReadSoftPrompt(const std::string& path);

}  // namespace ringside
