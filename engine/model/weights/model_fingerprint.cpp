#include "engine/model/weights/model_fingerprint.h"

#include <algorithm>

namespace ringside {
namespace {

constexpr int64_t kLayoutVersion = 2;

void AddTexts(std::span<const std::string> texts, Digest* digest) {
  digest->AddNumber(static_cast<int64_t>(texts.size()));
  for (const std::string& text : texts) digest->AddText(text);
}

void AddIds(std::span<const TokenId> ids, Digest* digest) {
  digest->AddNumber(static_cast<int64_t>(ids.size()));
  digest->AddBytes(ids.data(), ids.size_bytes());
}

void AddPattern(const TextPattern& pattern, Digest* digest) {
  digest->AddText(pattern.text);
  digest->AddNumber(pattern.literal);
}

void AddTokenizer(const TokenizerData& data, Digest* digest) {
  digest->AddNumber(static_cast<int64_t>(data.kind));
  AddTexts(data.tokens, digest);
  digest->AddNumber(static_cast<int64_t>(data.types.size()));
  digest->AddBytes(data.types.data(), data.types.size());
  digest->AddNumber(static_cast<int64_t>(data.scores.size()));
  digest->AddBytes(data.scores.data(), data.scores.size() * sizeof(double));
  digest->AddNumber(static_cast<int64_t>(data.merges.size()));
  for (const auto& [left, right] : data.merges) {
    digest->AddText(left);
    digest->AddText(right);
  }
  for (const NormaliserStep& step : data.normaliser) {
    digest->AddNumber(static_cast<int64_t>(step.kind));
    AddPattern(step.pattern, digest);
    digest->AddText(step.text);
    for (const bool value : {step.left, step.right}) digest->AddNumber(value);
  }
  digest->AddNumber(static_cast<int64_t>(data.pre_tokenizer.size()));
  for (const PreTokenizerStep& step : data.pre_tokenizer) {
    digest->AddNumber(static_cast<int64_t>(step.kind));
    AddPattern(step.pattern, digest);
    for (const int64_t value : {static_cast<int64_t>(step.behaviour), static_cast<int64_t>(step.prefix)}) {
      digest->AddNumber(value);
    }
    for (const bool value : {step.invert, step.split}) digest->AddNumber(value);
    digest->AddText(step.replacement);
  }
  digest->AddText(data.charsmap);
  for (const bool value :
       {data.ignore_merges, data.fuse_unknown, data.strips_leading_space, data.white_space.trim_front,
        data.white_space.trim_back, data.white_space.collapse, data.white_space.prefix}) {
    digest->AddNumber(value);
  }
  digest->AddNumber(static_cast<int64_t>(data.dialect));
  for (const TokenizerData::AddedToken& token : data.added) {
    digest->AddNumber(token.id);
    for (const bool value : {token.strip_left, token.strip_right, token.single_word, token.normalised}) {
      digest->AddNumber(value);
    }
  }
  digest->AddNumber(data.text_begin ? int64_t{*data.text_begin} + 1 : 0);
  for (const auto& id : {data.bos, data.eos, data.unknown}) digest->AddNumber(id ? int64_t{*id} : -1);
  AddIds(data.end_of_turn, digest);
}

}  // namespace

void AddSpec(const ModelSpec& spec, Digest* digest) {
  digest->AddText(spec.architecture);
  for (const int64_t value :
       {spec.layers, spec.hidden, spec.heads, spec.kv_heads, spec.head_dim, spec.ffn, spec.vocab, spec.trained_context,
        static_cast<int64_t>(spec.norm), static_cast<int64_t>(spec.activation), spec.experts, spec.experts_used,
        spec.shared_ffn, static_cast<int64_t>(spec.qk_norm), spec.position_offset,
        static_cast<int64_t>(spec.rope_pairs), spec.rotary}) {
    digest->AddNumber(value);
  }
  for (const bool value : {spec.norm_weights, spec.norm_biases, spec.norm_before, spec.norm_after, spec.parallel,
                           spec.shared_norm, spec.embedding_norm, spec.gated, spec.experts_normalised, spec.fused_qkv,
                           spec.fused_gate_up, spec.qkv_bias, spec.attention_out_bias, spec.mlp_bias, spec.head_bias,
                           spec.sinks, spec.learned_positions, spec.sinusoidal_positions, spec.tied_head}) {
    digest->AddNumber(value);
  }
  for (const float value : {spec.norm_eps, spec.norm_offset, spec.query_scale, spec.score_cap, spec.embedding_scale,
                            spec.logit_scale, spec.logit_cap}) {
    digest->AddFloat(static_cast<double>(value));
  }
  digest->AddFloat(spec.alibi);
  if (spec.norm_sums || !spec.final_norm || spec.alibi_scaled || spec.embedded != 0) {
    for (const int64_t value :
         {int64_t{spec.norm_sums}, int64_t{spec.final_norm}, int64_t{spec.alibi_scaled}, spec.embedded}) {
      digest->AddNumber(value);
    }
  }
  if (spec.encoder_layers > 0) {
    for (const int64_t value : {spec.encoder_layers, spec.answer_start, spec.bias_buckets, spec.bias_reach}) {
      digest->AddNumber(value);
    }
  }
  if (!spec.router.plain() || spec.router_correction || spec.common_ffn > 0) {
    if (spec.router.group_highest) digest->AddText("groups by their highest choice");
    for (const int64_t value : {int64_t{spec.router.sigmoid}, spec.router.groups, spec.router.groups_used,
                                int64_t{spec.router_correction}, spec.common_ffn}) {
      digest->AddNumber(value);
    }
    digest->AddFloat(static_cast<double>(spec.router.scale));
  }
  if (spec.value_norm || spec.layer_inputs > 0 || spec.layer_scalar || spec.separate_experts) {
    for (const int64_t value : {int64_t{spec.value_norm}, spec.layer_inputs, spec.layer_input_vocab,
                                int64_t{spec.layer_scalar}, int64_t{spec.separate_experts}}) {
      digest->AddNumber(value);
    }
  }
  if (spec.streams.count > 0) {
    for (const int64_t value : {spec.streams.count, spec.streams.laurel_rank, int64_t{spec.streams.scaled}}) {
      digest->AddNumber(value);
    }
  }
  if (spec.separate_gate || !spec.head_norm_weights || spec.plain_final_norm || !spec.embedding_norm_weights) {
    for (const bool value : {spec.separate_gate, spec.head_gates, spec.softplus_gate, spec.head_norm_weights,
                             spec.plain_final_norm, spec.embedding_norm_weights}) {
      digest->AddNumber(value);
    }
  }
  if (spec.post_norm_eps != 0) digest->AddFloat(static_cast<double>(spec.post_norm_eps));
  if (spec.router.margin != 0) digest->AddFloat(static_cast<double>(spec.router.margin));
  if (spec.router_cap != 0) digest->AddFloat(static_cast<double>(spec.router_cap));
  if (spec.router.scales_input) digest->AddText("scaled inputs of experts");
  if (spec.latent.rank > 0) {
    for (const int64_t value : {spec.latent.rank, spec.latent.query_rank, spec.latent.plain, spec.latent.value,
                                int64_t{spec.latent.separate_parts}}) {
      digest->AddNumber(value);
    }
    digest->AddFloat(static_cast<double>(spec.latent.norm_eps));
  }
  if (spec.expert_inputs > 0) digest->AddNumber(spec.expert_inputs);
  if (spec.factors.any()) {
    const LayerFactors& factors = spec.factors;
    for (const float value : {factors.attended, factors.recurrent, factors.gate, factors.mlp}) {
      digest->AddFloat(static_cast<double>(value));
    }
    for (const float value : factors.recurrent_inputs) digest->AddFloat(static_cast<double>(value));
  }
  if (spec.position_scale != 0) {
    digest->AddFloat(static_cast<double>(spec.position_scale));
    digest->AddNumber(spec.position_scale_context);
    if (spec.position_scale_shift != 0) digest->AddNumber(spec.position_scale_shift);
  }
  if (spec.query_gate) digest->AddText("query gate");
  if (spec.recurrent()) {
    const RecurrenceShape& sizes = spec.recurrence;
    for (const int64_t value : {static_cast<int64_t>(sizes.mixer), sizes.key_heads, sizes.value_heads, sizes.key_size,
                                sizes.value_size, sizes.channels(), sizes.kernel,
                                static_cast<int64_t>(spec.recurrence_matrices), int64_t{spec.convolution_bias},
                                int64_t{spec.recurrent_bias}, spec.recurrent_groups, int64_t{sizes.alternates}}) {
      digest->AddNumber(value);
    }
    digest->AddFloat(static_cast<double>(spec.recurrent_norm_eps));
    digest->AddFloat(static_cast<double>(sizes.largest_beta));
    digest->AddNumber(spec.recurrent_norm_before);
    digest->AddNumber(spec.recurrent_rank);
    for (int64_t layer = 0; layer < spec.layers; ++layer) {
      digest->AddNumber(static_cast<int64_t>(spec.Layer(layer).mixer));
      digest->AddNumber(spec.Layer(layer).has_mlp);
      if (spec.Layer(layer).attends) digest->AddText("attention, too");
    }
  }
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (spec.Layer(layer).dense_ffn > 0) digest->AddNumber(spec.Layer(layer).dense_ffn);
    digest->AddNumber(spec.Layer(layer).window);
    digest->AddNumber(spec.Layer(layer).rotation);
    const LayerTraits traits = spec.Layer(layer);
    if (traits.sparse) digest->AddFloat(static_cast<double>(traits.sparsity));
    if (traits.chunked || traits.plain_scores || !traits.head_norms || traits.heads != 0) {
      for (const int64_t value :
           {int64_t{traits.chunked}, int64_t{traits.plain_scores}, int64_t{traits.head_norms}, traits.heads}) {
        digest->AddNumber(value);
      }
    }
    const auto [kv_heads, head_dim] = spec.KvSizes(layer);
    const bool usual = kv_heads == spec.kv_heads && head_dim == spec.head_dim && spec.OwnsKeys(layer);
    if (usual && !spec.Layer(layer).keys_are_values) continue;
    for (const int64_t value :
         {kv_heads, head_dim, spec.Layer(layer).keys_of, int64_t{spec.Layer(layer).keys_are_values}}) {
      digest->AddNumber(value);
    }
  }
  if (spec.draft_layers > 0) digest->AddText("draft layer");
  for (const Rotation& rotation : spec.rotations) {
    digest->AddFloat(rotation.magnitude);
    for (const double frequency : rotation.inverse_frequencies) digest->AddFloat(frequency);
  }
}

Fingerprint FingerprintOf(std::span<const uint8_t, 16> weights, const TokenizerData& tokenizer,
                          std::string_view chat_template, DType activations, DType weight_type) {
  Digest rest;
  rest.AddNumber(kArithmeticVersion);
  rest.AddNumber(kLayoutVersion);
  AddTokenizer(tokenizer, &rest);
  rest.AddText(chat_template);
  rest.AddText(Traits(activations).name);
  if (weight_type != activations) rest.AddText(Traits(weight_type).name);
  const std::array<uint8_t, 16> second = rest.Get();
  Fingerprint out{};
  static_assert(sizeof(out) == 32);
  std::copy(second.begin(), second.end(), std::copy(weights.begin(), weights.end(), out.begin()));
  return out;
}

Fingerprint FingerprintUnder(const Fingerprint& model, std::span<const uint8_t, 16> adapter) {
  Digest weights;
  weights.AddBytes(model.data(), model.size());
  weights.AddBytes(adapter.data(), adapter.size());
  const std::array<uint8_t, 16> first = weights.Get();
  Fingerprint out = model;
  std::copy(first.begin(), first.end(), out.begin());
  return out;
}

}  // namespace ringside
