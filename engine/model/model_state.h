// What a Model holds: the parts of Model::State, shared by loading and the steps. Nobody else includes this.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/model/decoder.h"
#include "engine/model/model.h"
#include "engine/model/rank_group.h"
#include "engine/model/slab_shards.h"
#include "kernels/backend.h"

namespace ringside {

struct Model::State {
  State(std::span<Backend* const> devices, int stages)
      : backends(devices.begin(), devices.end()),
        layout{.tensor = static_cast<int>(devices.size()) / stages, .stages = stages},
        group(devices.size()),
        planner(spec),
        decoders(devices.size()) {
    CHECK_EQ(static_cast<size_t>(layout.ranks()), devices.size());
  }
  ~State();

  const std::vector<Backend*> backends;  // of the ranks
  const RankLayout layout;
  RankGroup group;
  ModelSpec spec;
  TokenizerData tokenizer;
  std::string chat_template;
  Fingerprint fingerprint{};
  std::vector<Shard> shards;
  std::unique_ptr<SlabShards> slabs;  // of several ranks
  StepPlanner planner;
  StepPlan plan;
  std::vector<std::unique_ptr<Decoder>> decoders;  // each used by its rank

  Status LoadGguf(const std::string& path, Digest* digest);
  Status LoadHuggingFace(const std::string& folder, Digest* digest);
  Status MakeDummy(const std::string& folder, Digest* digest);
  /// Of a Hugging Face folder, if it has one.
  Status ReadTexts(const std::string& folder);
  /// Every rank takes its part, which `weights` gives it: of the network, the rank's shard, to its backend; with a
  /// digest for the first.
  using WeightsOf = std::function<Result<Weights>(const Shard& shard, Backend& backend, Digest* digest)>;
  Status LoadNetwork(const NetworkPlan& network, const WeightsOf& weights_of, Digest* digest);

  /// Has every rank begin the step, which it ends with `then`.
  void Run(std::span<const StepPart> parts, const std::function<void(Decoder&, size_t rank)>& then);
};

}  // namespace ringside
