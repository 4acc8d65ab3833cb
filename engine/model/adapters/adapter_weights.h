// A rank's part of an adapter on a backend's device. Made once at load, const afterwards; owned by the Decoder.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/families/network_plan.h"
#include "engine/model/adapters/adapter_file.h"
#include "engine/model/adapters/soft_prompt.h"
#include "engine/model/weights/shard.h"
#include "kernels/backend.h"

namespace ringside {

/// Groups of a decoder block's matrices that share an input, by output (LayerWeights).
enum class AdaptedPart { kQkv, kAttentionOut, kMlpIn, kMlpOut };
constexpr size_t kAdaptedParts = 4;

/// One decoder block, by AdaptedPart; empty if nothing is adapted.
using AdapterLayer = std::array<std::vector<LowRank>, kAdaptedParts>;

struct AdapterWeights {
  std::vector<AdapterLayer> layers;  // the rank's layers
  Weight soft_prompt;                // [n, D], rows of the residual stream; no rows if there is no soft prompt
  int64_t bytes = 0;
};

/// Uploads a rank's part of an adapter. For a matrix split by outputs the rank has its rows of B and all of A; for one
/// split by inputs, its columns of A and all of B, and the all-reduce sums the results. `planned`: the tensors of the
/// model's file; `gguf`: its format. ERRORS: kInvalidArgument, with the name, for a module that the model lacks or that
/// cannot be adapted (embedding, head, experts), and for an adapter in the other format or for another architecture;
/// kCorruption for wrong sizes; kOverloaded without memory.
Result<AdapterWeights> LoadAdapter(const AdapterFile& file, std::span<const PlannedTensor> planned, bool gguf,
                                   const ModelSpec& spec, const Shard& shard, Backend& backend);

/// Uploads a soft prompt to a rank that embeds. ERRORS: kCorruption if its rows have another size than the model's,
/// kInvalidArgument if it leaves no positions for tokens; kOverloaded without memory.
Result<AdapterWeights> LoadSoftPrompt(const SoftPrompt& prompt, const ModelSpec& spec, const Shard& shard,
                                      Backend& backend);

}  // namespace ringside
