// Model::Load: from a GGUF file or a folder to weights on the device.
#include <algorithm>

#include "base/log.h"
#include "engine/families/network_plan.h"
#include "engine/files/file_paths.h"
#include "engine/model/model_facts.h"
#include "engine/model/model_state.h"
#include "engine/model/network_needs.h"
#include "engine/model/weights/digest.h"
#include "engine/model/weights/model_fingerprint.h"
#include "engine/model/weights/vision_digest.h"

namespace ringside {
namespace {

constexpr uint64_t kDummySeed = 1;

}  // namespace

Status Model::State::LoadNetwork(const NetworkPlan& network, const WeightsOf& weights_of, Digest* digest) {
  spec = network.spec;
  planned = network.tensors;
  if (layout.tensor > 1) RETURN_IF_ERROR(CheckShares(spec));
  if (layout.stages > 1) RETURN_IF_ERROR(CheckStages(spec));
  ASSIGN_OR_RETURN(shards, MakeShards(spec, layout, block));
  RETURN_IF_ERROR(group.Try([&](size_t here) {
    if (here >= backends.size()) return Status::Ok();
    Backend& backend = *backends[here];
    backend.MakeCurrent();
    const Shard& shard = shards[static_cast<size_t>(first_rank) + here];
    ASSIGN_OR_RETURN(Weights weights, weights_of(shard, backend, here == 0 ? digest : nullptr));
    if (here == 0) weight_type = weights.kept.value_or(backend.weight_dtype());
    decoders[here] = std::make_unique<Decoder>(backend, spec, shard, VocabBorders(shards), std::move(weights));
    return Status::Ok();
  }));
  for (const auto& decoder : decoders) weight_bytes += decoder->weight_bytes();
  if (first_rank == 0 && layout.ranks() > 1) {
    std::vector<SlabMemory*> memories(backends.begin(), backends.end());
    for (const auto& remote : remotes) memories.push_back(remote.get());
    slabs = std::make_unique<SlabShards>(group, std::move(memories), shards, spec);
  }
  return Status::Ok();
}

Status Model::State::LoadFiles(const std::string& path, DraftLayer draft, Digest* digest) {
  ASSIGN_OR_RETURN(ModelFiles files, OpenCheckedFiles(path, *backends.front(), draft));
  for (const FileTensor& tensor : files.tensors) block = std::max(block, Traits(tensor.data.dtype).block_elements);
  const WeightsOf weights_of = [&](const Shard& shard, Backend& backend, Digest* of_first) {
    return LoadWeights(files.plan, files.tensors, shard, backend, of_first);
  };
  if (files.vision != nullptr && layout.ranks() == 1) {
    files.plan.spec.image_layers = std::ssize(files.vision->plan.spec.deep_layers);
  }
  RETURN_IF_ERROR(WithPath(path, LoadNetwork(files.plan, weights_of, digest)));
  RETURN_IF_ERROR(WithPath(path, LoadVision(files.vision.get(), digest)));
  tokenizer = std::move(files.tokenizer);
  chat_template = std::move(files.chat_template);
  gguf = files.format == ModelFiles::Format::kGguf;
  return Status::Ok();
}

Status Model::State::LoadVision(const VisionFiles* vision, Digest* digest) {
  if (vision == nullptr) return Status::Ok();
  if (layout.ranks() > 1) {
    LogWarning("the model '{}' is used without images, which several ranks do not read", spec.name);
    return Status::Ok();
  }
  Backend& backend = *backends.front();
  RETURN_IF_ERROR(DigestVision(*vision, digest));
  ASSIGN_OR_RETURN(VisionWeights weights, LoadVisionWeights(vision->plan, vision->tensors, backend));
  auto tower = std::make_unique<VisionTower>(backend, vision->plan.spec, std::move(weights));
  RETURN_IF_ERROR(tower->Reserve());
  images = std::make_unique<ImageEncoder>(std::move(tower), std::max<int64_t>(spec.layer_weights(), 1));
  image_format = vision->format;
  spec.images_see_all = vision->plan.spec.see_all;
  if (spec.images_see_all) whole_image_tokens = vision->plan.spec.most_tokens();
  weight_bytes += images->weight_bytes();
  return Status::Ok();
}

Status Model::State::MakeDummy(const std::string& folder, DraftLayer draft, Digest* digest) {
  ASSIGN_OR_RETURN(const FlatJson config, FlatJson::ReadFile(folder + "/config.json"));
  auto plan = PlanHuggingFace(config, {}, folder, draft);
  RETURN_IF_ERROR(WithPath(folder, plan.status()));
  RETURN_IF_ERROR(WithPath(folder, CheckNeeds(plan->spec, *backends.front())));
  const WeightsOf weights_of = [&](const Shard& shard, Backend& backend, Digest* of_first) {
    return MakeWeights(*plan, kDummySeed, shard, backend, of_first);
  };
  RETURN_IF_ERROR(WithPath(folder, LoadNetwork(*plan, weights_of, digest)));
  RETURN_IF_ERROR(ReadTexts(folder, &chat_template, &tokenizer));
  if (tokenizer.tokens.empty()) tokenizer = DummyTokenizer(spec.vocab);
  return CheckTokenizer(folder, tokenizer, spec);
}

Result<std::unique_ptr<Model>> Model::Load(const std::string& path, Backend& backend) {
  Backend* const only = &backend;
  return Load(path, {&only, 1});
}

Status Model::State::Load(const std::string& path, LoadFormat format, DraftLayer draft) {
  Digest digest;
  if (layout.ranks() > 1) draft = DraftLayer::kSkip;
  RETURN_IF_ERROR(format == LoadFormat::kDummy ? MakeDummy(path, draft, &digest) : LoadFiles(path, draft, &digest));
  fingerprint =
      FingerprintOf(digest.Get(), tokenizer, chat_template, backends.front()->activation_dtype(), weight_type);
  return Status::Ok();
}

Result<std::unique_ptr<Model>> Model::Load(const std::string& path, std::span<Backend* const> ranks, int stages,
                                           LoadFormat format, DraftLayer draft) {
  auto state = std::make_unique<State>(ranks, stages, nullptr);
  RETURN_IF_ERROR(state->Load(path, format, draft));
  return std::unique_ptr<Model>(new Model(std::move(state)));
}

}  // namespace ringside
