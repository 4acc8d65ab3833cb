// An adapter on a backend's device: a rank's part of it. Made once at load, const afterwards; owned by the Decoder.
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

/// The matrices of a decoder block that are multiplied with one input, by what they give (LayerWeights).
enum class AdaptedPart { kQkv, kAttentionOut, kMlpIn, kMlpOut };
constexpr size_t kAdaptedParts = 4;

/// Of one decoder block, by AdaptedPart; empty where nothing is adapted.
using AdapterLayer = std::array<std::vector<LowRank>, kAdaptedParts>;

struct AdapterWeights {
  std::vector<AdapterLayer> layers;  // of the rank
  Weight soft_prompt;                // [n, D], as the residual stream has it; no rows where there is none
  int64_t bytes = 0;
};

/// Takes a rank's part of an adapter to its device. Where the rank has some outputs of a matrix it has those of B and
/// all of A; where it has some inputs, those of A and all of B, and what it adds is summed with the other ranks'.
/// `planned` are the tensors of the model's file, of which `gguf` says the format. kInvalidArgument, naming it, for a
/// module that the model lacks or that cannot be adapted (embedding, head, experts), and where the adapter is of the
/// other format or of another architecture; kCorruption for one with other sizes; kOverloaded without room.
Result<AdapterWeights> LoadAdapter(const AdapterFile& file, std::span<const PlannedTensor> planned, bool gguf,
                                   const ModelSpec& spec, const Shard& shard, Backend& backend);

/// Takes a soft prompt to a rank's device, if that embeds. kCorruption where its rows have another size than the
/// model's, kInvalidArgument where it leaves no position to tokens; kOverloaded without room.
Result<AdapterWeights> LoadSoftPrompt(const SoftPrompt& prompt, const ModelSpec& spec, const Shard& shard,
                                      Backend& backend);

}  // namespace ringside
