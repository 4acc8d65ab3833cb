// The members of Model, shared by loading and the steps. Included only by model*.cpp.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/model/decoder/decoder.h"
#include "engine/model/model.h"
#include "engine/model/ranks/rank_group.h"
#include "engine/model/ranks/remote_rank.h"
#include "engine/model/ranks/slab_shards.h"
#include "engine/model/weights/model_files.h"
#include "engine/vision/image_encoder.h"
#include "engine/vision/image_format.h"
#include "kernels/backend.h"
#include "kernels/ranks/processes.h"

namespace ringside {

struct Model::State {
  /// `processes`: all with the same number of ranks as `devices`; null = a single process.
  State(std::span<Backend* const> devices, int stages, Processes* processes);
  ~State();

  const std::vector<Backend*> backends;              // this process's ranks
  const int first_rank;                              // of this process
  const RankLayout layout;                           // all processes' ranks
  std::unique_ptr<Comm> others;                      // the processes; null if single
  std::vector<std::unique_ptr<RemoteRank>> remotes;  // ranks of other processes; in the first process only
  RankGroup group;                                   // this process's ranks, then the remote ones
  ModelSpec spec;
  TokenizerData tokenizer;
  std::string chat_template;
  Fingerprint fingerprint{};
  std::vector<Fingerprint> adapter_fingerprints;
  std::vector<int64_t> virtual_tokens;  // by adapter
  std::vector<PlannedTensor> planned;   // the file's tensors, as named by adapters
  bool gguf = false;
  int64_t block = 1;  // Shard::block
  std::vector<Shard> shards;
  std::unique_ptr<SlabShards> slabs;  // null for a single rank
  StepPlanner planner;
  StepPlan plan;
  StepPlan draft_plan;                             // of a pass of the draft layer
  std::optional<ImageFormat> image_format;         // with `images`
  int64_t whole_image_tokens = 0;                  // NetworkShape::whole_image_tokens
  std::unique_ptr<ImageEncoder> images;            // null if it reads none
  std::vector<std::unique_ptr<Decoder>> decoders;  // this process's ranks; each used on its rank's thread
  int64_t weight_bytes = 0;
  DType weight_type = DType::kF32;  // for the fingerprint: the first rank's type; kBlockQuant4 for all block-quantized
                                    // types

  /// Loads everything.
  Status Load(const std::string& path, LoadFormat format, DraftLayer draft = DraftLayer::kSkip);
  Status LoadFiles(const std::string& path, DraftLayer draft, Digest* digest);
  /// Loads the vision tower, if there is one. Several ranks read no images.
  Status LoadVision(const VisionFiles* vision, Digest* digest);
  Status MakeDummy(const std::string& folder, DraftLayer draft, Digest* digest);
  /// Loads the part of each rank of this process: calls `weights_of` for its shard and backend, with a digest for the
  /// first rank.
  using WeightsOf = std::function<Result<Weights>(const Shard& shard, Backend& backend, Digest* digest)>;
  Status LoadNetwork(const NetworkPlan& network, const WeightsOf& weights_of, Digest* digest);
  /// Loads each rank's part of the adapter, with the next number.
  Status LoadAdapter(const NamedAdapter& adapter);

  /// Exchanges load results with the other processes. ERRORS: the first failure; kInvalidArgument if they have loaded
  /// something else.
  Status Compare(const Status& loaded);

  RankDecoder& decoder(size_t rank) {
    if (rank < decoders.size()) return *decoders[rank];
    return *remotes[rank - decoders.size()];
  }
  /// Starts the step on every rank and ends it with `then`.
  void Run(std::span<const StepPart> parts, const std::function<void(RankDecoder&, size_t rank)>& then);
};

}  // namespace ringside
