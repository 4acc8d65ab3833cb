// Experts, alone and next to an MLP, and per-layer inputs of a decoder (Gemma 3n and 4).
#include <cmath>

#include "engine/model/decoder/decoder.h"

namespace ringside {

Tensor Decoder::RouterLogits(Tensor x, const LayerWeights& w) {
  const Tensor router = router_.Rows(backend_, x.rows).value();
  std::vector<const Weight*> weights;
  for (const Weight& weight : w.router) weights.push_back(&weight);
  backend_.Linear({.x = x, .weights = weights, .bias = w.router_bias.data(), .y = router});
  if (own_.router_cap > 0) backend_.SoftCap(router, own_.router_cap);
  return router;
}

// Experts with projected inputs (Nemotron 3 Super) read W x; V times their sum is the result.
void Decoder::Experts(Tensor x, Tensor router, const LayerWeights& w, Tensor y, bool accumulate) {
  RouterTraits traits = own_.router;
  traits.correction = w.router_correction.data();
  traits.scales = w.separate.router_scales.data();
  const bool projects = own_.expert_inputs > 0;
  Tensor in = x, out = y;
  if (projects) {
    in = attended_.Rows(backend_, x.rows, own_.expert_inputs).value();  // free since attention
    out = experts_.Rows(backend_, x.rows).value();
    const Weight* weights[] = {&w.experts_in};
    backend_.Linear({.x = x, .weights = weights, .y = in});
  }
  backend_.Experts({.x = in,
                    .router = router,
                    .experts = w.expert_list,
                    .packed = w.placed_experts.data(),
                    .top_k = own_.experts_used,
                    .normalised = own_.experts_normalised,
                    .shared = own_.shared_ffn > 0,
                    .traits = traits,
                    .activation = own_.activation,
                    .y = out,
                    .accumulate = accumulate && !projects});
  if (!projects) return;
  const Weight* weights[] = {&w.experts_out};
  backend_.Linear({.x = out, .weights = weights, .y = y, .accumulate = accumulate});
}

void Decoder::MlpInto(Tensor x, const LayerWeights& w, int64_t layer, Tensor sum) {
  const Tensor hidden = MlpHidden(x, w, layer);
  const Weight* weights[] = {&w.mlp_out};
  backend_.Linear({.x = hidden, .weights = weights, .y = sum});
  AddAdapted(hidden, layer, AdaptedPart::kMlpOut, sum);
}

// x + Norm(Norm(Mlp(Norm(x))) + Norm(Experts(Norm(x)))); MLP, router and experts have separate norms of x.
void Decoder::MlpAndExperts(const LayerWeights& w, int64_t layer) {
  const SeparateExperts& separate = w.separate;
  const Tensor sum = part_.Rows(backend_, stream_.rows).value();
  MlpInto(NormedStream(w.mlp_norm, w.mlp_norm_bias, normed_), w, layer, sum);
  if (!shard_.whole()) backend_.AllReduceInPlace(sum);
  PostNorm(sum, separate.mlp_post_norm);

  const Tensor router = RouterLogits(NormedStream(separate.router_norm, none_, normed_), w);
  const Tensor experts = experts_.Rows(backend_, stream_.rows).value();
  Experts(NormedStream(separate.experts_norm, none_, normed_), router, w, experts, false);
  if (!shard_.whole()) backend_.AllReduceInPlace(experts);
  PostNorm(experts, separate.experts_post_norm);
  backend_.Add(experts, sum);
  PostNorm(sum, w.mlp_post_norm);
  backend_.Add(sum, stream_);
}

// x + Norm(Mlp(y) + Experts(y))
void Decoder::SummedExperts(Tensor x, const LayerWeights& w, int64_t layer) {
  const Tensor sum = part_.Rows(backend_, stream_.rows).value();
  const bool dense = !w.mlp_in.empty();
  if (dense) MlpInto(x, w, layer, sum);
  Experts(x, RouterLogits(x, w), w, sum, dense);
  AddSum(sum, w.mlp_post_norm);
}

// (Embed(id) sqrt(P) + Norm(W x / sqrt(D))) / sqrt(2), where x is the embedding. A norm is invariant to a factor of its
// input if its epsilon is divided by the factor's square.
void Decoder::EmbedLayerInputs(std::span<const TokenId> ids) {
  std::vector<TokenId> own(ids.begin(), ids.end());
  for (TokenId& id : own) id = id < own_.layer_input_vocab ? id : 0;
  const Tensor all = layer_inputs_.all.Rows(backend_, stream_.rows).value();
  const Tensor projected = layer_inputs_.projected.Rows(backend_, stream_.rows).value();
  const auto width = static_cast<float>(own_.layer_inputs);
  backend_.Embed(weights_.layer_inputs.table, own, std::sqrt(width / 2), all);
  const Weight* weights[] = {&weights_.layer_inputs.projection};
  backend_.Linear({.x = stream_, .weights = weights, .y = projected});
  backend_.RmsNormHeads(projected, own_.layers, weights_.layer_inputs.norm.data(),
                        own_.norm_eps * static_cast<float>(own_.hidden));
  backend_.Add(projected, all);
}

// Norm(W (activation(V x) * input))
Tensor Decoder::LayerInput(Tensor stream, const LayerWeights& w, int64_t layer) {
  const Tensor gate = layer_inputs_.gate.Rows(backend_, stream.rows).value();
  const Tensor all = layer_inputs_.all.Rows(backend_, stream.rows).value();
  const Weight* in[] = {&w.input_gate};
  backend_.Linear({.x = stream, .weights = in, .y = gate});
  backend_.Activate(gate, own_.activation);
  backend_.Gate(all.Columns(layer * own_.layer_inputs, own_.layer_inputs), GateKind::kIdentity, gate);
  const Tensor sum = part_.Rows(backend_, stream.rows).value();
  const Weight* out[] = {&w.input_out};
  backend_.Linear({.x = gate, .weights = out, .y = sum});
  PostNorm(sum, w.input_post_norm);
  return sum;
}

}  // namespace ringside
