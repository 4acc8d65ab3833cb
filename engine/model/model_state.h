// What a Model holds: the parts of Model::State, shared by loading and the steps. Nobody else includes this.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/model/decoder.h"
#include "engine/model/model.h"
#include "engine/model/ranks/rank_group.h"
#include "engine/model/ranks/remote_rank.h"
#include "engine/model/ranks/slab_shards.h"
#include "kernels/backend.h"
#include "kernels/ranks/processes.h"

namespace ringside {

struct Model::State {
  /// `processes`: all of which have as many ranks as `devices`; null where this is the only one.
  State(std::span<Backend* const> devices, int stages, Processes* processes);
  ~State();

  const std::vector<Backend*> backends;              // of the ranks of this process
  const int first_rank;                              // of this process
  const RankLayout layout;                           // of the ranks of all processes
  std::unique_ptr<Comm> others;                      // the processes, where there are several
  std::vector<std::unique_ptr<RemoteRank>> remotes;  // of the others, in the first process
  RankGroup group;                                   // of this process's ranks, and of the remotes behind them
  ModelSpec spec;
  TokenizerData tokenizer;
  std::string chat_template;
  Fingerprint fingerprint{};
  std::vector<Fingerprint> adapter_fingerprints;
  std::vector<int64_t> virtual_tokens;  // of each adapter
  std::vector<PlannedTensor> planned;   // of the file, which adapters name
  bool gguf = false;
  std::vector<Shard> shards;
  std::unique_ptr<SlabShards> slabs;  // of several ranks
  StepPlanner planner;
  StepPlan plan;
  std::vector<std::unique_ptr<Decoder>> decoders;  // of this process's ranks, each used by its rank
  int64_t weight_bytes = 0;
  DType weight_type = DType::kF32;  // for the fingerprint: of the first rank's, kGrouped4 for all in groups

  /// All of them.
  Status Load(const std::string& path, LoadFormat format);
  Status LoadFiles(const std::string& path, Digest* digest);
  Status MakeDummy(const std::string& folder, Digest* digest);
  /// Every rank of this process takes its part, which `weights` gives it: of the network, the rank's shard, to its
  /// backend; with a digest for the first.
  using WeightsOf = std::function<Result<Weights>(const Shard& shard, Backend& backend, Digest* digest)>;
  Status LoadNetwork(const NetworkPlan& network, const WeightsOf& weights_of, Digest* digest);
  /// Every rank takes its part of the adapter, as the next one.
  Status LoadAdapter(const NamedAdapter& adapter);

  /// Tells the other processes how Load went here, and hears how it went there: the first failure, and kInvalidArgument
  /// where they have loaded something else.
  Status Compare(const Status& loaded);

  RankDecoder& decoder(size_t rank) {
    if (rank < decoders.size()) return *decoders[rank];
    return *remotes[rank - decoders.size()];
  }
  /// Has every rank begin the step, which it ends with `then`.
  void Run(std::span<const StepPart> parts, const std::function<void(RankDecoder&, size_t rank)>& then);
};

}  // namespace ringside
