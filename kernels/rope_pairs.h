// Which dimensions of a head rotate together in RoPE.
#pragma once

namespace ringside {

enum class RopePairs {
  kNone,      // no rotation (learned positions)
  kAdjacent,  // dimensions (2j, 2j + 1) rotate together: GGUF's llama order
  kHalves,    // dimensions (j, j + rotary/2) rotate together: Hugging Face, GPT-NeoX
};

}  // namespace ringside
