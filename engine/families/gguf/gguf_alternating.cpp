// GGUF files of families whose layers alternate between windows or chunks and full attention.
#include <cmath>

#include "engine/families/gguf/gguf_families.h"

namespace ringside {
namespace {

/// Layers that have experts: the last of every `interleave_moe_layer_step`.
Status ReadInterleavedExperts(const GgufKeys& keys, ModelSpec* spec) {
  int64_t dense = 0, step = 1;
  RETURN_IF_ERROR(keys.Need("feed_forward_length", &dense));
  RETURN_IF_ERROR(keys.Optional("interleave_moe_layer_step", &step));
  if (dense < 1 || step < 1) {
    return InvalidArgument(fmt::format("the file's '{}' is {} and '{}' {}; both must be at least 1",
                                       keys.Name("feed_forward_length"), dense, keys.Name("interleave_moe_layer_step"),
                                       step));
  }
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    if ((layer + 1) % step != 0) spec->layer_traits[static_cast<size_t>(layer)].dense_ffn = dense;
  }
  spec->common_ffn = spec->ffn;
  return Status::Ok();
}

// The file has neither the chunks' size nor the scale of scores, which are those of the published models. Three of four
// layers see chunks, are rotated, and have norms of queries and keys, except in the model with 128 experts.
Status SetGgufLlama4(const GgufKeys& keys, ModelSpec* spec) {
  constexpr int64_t kChunk = 8192;
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (LayerTraits& layer : spec->layer_traits) layer.window = kChunk;
  RETURN_IF_ERROR(ReadWindowPattern(keys, 4, false, spec));
  RotateWindows(spec);
  const bool norms = spec->experts != 128;
  for (LayerTraits& layer : spec->layer_traits) {
    layer.chunked = layer.plain_scores = layer.window > 0;
    layer.head_norms = norms && layer.chunked;
  }
  spec->qk_norm = norms ? QkNorm::kHeads : QkNorm::kNone;
  spec->head_norm_weights = false;
  spec->position_scale = 0.1f, spec->position_scale_context = kChunk, spec->position_scale_shift = 1;
  spec->router.sigmoid = spec->router.scales_input = true;
  return ReadInterleavedExperts(keys, spec);
}

// The file does not have whether embeddings are scaled: all published models' are.
Status SetGgufAfmoe(const GgufKeys& keys, ModelSpec* spec) {
  if (spec->hidden > 0) spec->embedding_scale = std::sqrt(static_cast<float>(spec->hidden));
  spec->norm_after = spec->query_gate = spec->separate_gate = true;
  spec->qk_norm = QkNorm::kHeads;
  RETURN_IF_ERROR(ReadWindowPattern(keys, 4, false, spec));
  RotateWindows(spec);
  return ReadGgufMixture(keys, {.sigmoid = true, .normalised = true}, spec);
}

// Both kinds of layers rotate a part of a head. The gate's width is that of its tensor.
Status SetGgufLaguna(const GgufKeys& keys, ModelSpec* spec) {
  spec->qk_norm = QkNorm::kHeads;
  spec->query_gate = spec->separate_gate = spec->softplus_gate = true;
  const FileTensor* gate = keys.Tensor("blk.0.attn_gate.weight");
  spec->head_gates = gate == nullptr || gate->shape.front() == spec->heads;
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  RETURN_IF_ERROR(ReadWindowPattern(keys, 4, true, spec));
  std::vector<int64_t> heads;
  RETURN_IF_ERROR(keys.NeedPerLayer("attention.head_count", spec->layers, &heads));
  for (size_t layer = 0; layer < heads.size(); ++layer) {
    LayerTraits& traits = spec->layer_traits[layer];
    traits.heads = heads[layer];
    traits.rotation = traits.window > 0 ? 1 : 0;
  }
  return ReadGgufMixture(keys, {.sigmoid = true, .normalised = true}, spec);
}

// The norm of queries includes their scale. The file does not have the epsilon of output norms.
Status SetGgufMuseGlimmer(const GgufKeys& keys, ModelSpec* spec) {
  spec->norm_after = spec->embedding_norm = spec->query_gate = spec->separate_gate = true;
  spec->embedding_norm_weights = false;
  spec->post_norm_eps = 1e-8f;
  spec->qk_norm = QkNorm::kHeads;
  RETURN_IF_ERROR(keys.Optional("logit_scale", &spec->logit_scale));
  RETURN_IF_ERROR(keys.Optional("final_logit_softcapping", &spec->logit_cap));
  RETURN_IF_ERROR(ReadWindowPattern(keys, 4, false, spec));
  RotateWindows(spec);
  return Status::Ok();
}

constexpr std::string_view kScaleAndCap[] = {"logit_scale", "final_logit_softcapping"};

}  // namespace

std::span<const GgufFamily> GgufAlternatingFamilies() {
  static constexpr GgufFamily kFamilies[] = {
      {"afmoe", RopePairs::kHalves, SetGgufAfmoe, {}, kMixtureKeys},
      {"laguna", RopePairs::kHalves, SetGgufLaguna, {}, kMixtureKeys},
      {"llama4", RopePairs::kAdjacent, SetGgufLlama4, {}, kMixtureKeys},
      {"muse-glimmer", RopePairs::kAdjacent, SetGgufMuseGlimmer, {}, kScaleAndCap},
  };
  return kFamilies;
}

}  // namespace ringside
