#include "engine/convert/network_kind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/convert/format_words.h"
#include "engine/convert/t5_format.h"
#include "engine/families/gguf/gguf_families.h"
#include "engine/families/huggingface/huggingface_families.h"
#include "engine/families/rope_scaling.h"
#include "engine/import/faster_transformer_plan.h"

namespace ringside {
namespace {

using Format = ModelFiles::Format;
using Json = nlohmann::ordered_json;

struct KindNames {
  NetworkKind kind;
  std::string_view huggingface, gguf, faster_transformer;  // "": the format does not support it
  std::string_view architectures;                          // in config.json
  bool fused;                                              // queries, keys and values are one tensor in safetensors
};
constexpr KindNames kKinds[] = {
    {NetworkKind::kGpt2, "gpt2", "gpt2", "gpt", "GPT2LMHeadModel", true},
    {NetworkKind::kOpt, "opt", "", "gpt", "OPTForCausalLM", false},
    {NetworkKind::kBloom, "bloom", "bloom", "gpt", "BloomForCausalLM", true},
    {NetworkKind::kGptJ, "gptj", "", "gptj", "GPTJForCausalLM", false},
    {NetworkKind::kGptNeoX, "gpt_neox", "gptneox", "gptneox", "GPTNeoXForCausalLM", true},
    {NetworkKind::kLlama, "llama", "llama", "", "LlamaForCausalLM", false},
    {NetworkKind::kQwen2, "qwen2", "qwen2", "", "Qwen2ForCausalLM", false},
    {NetworkKind::kQwen3, "qwen3", "qwen3", "", "Qwen3ForCausalLM", false},
    {NetworkKind::kT5, "t5", "t5", "t5", "T5ForConditionalGeneration", false},
};

const KindNames& NamesOf(NetworkKind kind) {
  return *std::ranges::find_if(kKinds, [&](const KindNames& names) { return names.kind == kind; });
}

std::string_view NameIn(const KindNames& names, Format format) {
  return format == Format::kGguf          ? names.gguf
         : format == Format::kSafetensors ? names.huggingface
                                          : names.faster_transformer;
}

// Recovers the base from the frequencies, if they are not scaled.
Result<double> RotationBase(const ModelSpec& spec) {
  if (spec.rotations.size() != 1)
    return InvalidArgument("a model whose layers have different rotary embeddings cannot be converted");
  const Rotation& rotation = spec.rotations.front();
  const auto& frequencies = rotation.inverse_frequencies;
  const double exact = frequencies.size() < 2 ? 10000 : std::pow(frequencies[1], -static_cast<double>(spec.rotary) / 2);
  for (const double base : {std::round(exact), exact}) {
    if (!(base > 1)) break;
    const auto plain = MakeRotation({.base = base}, spec.rotary);
    if (plain.ok() && plain->inverse_frequencies == frequencies && rotation.magnitude == 1) return base;
  }
  return InvalidArgument("rope scaling cannot be converted");
}

Json OlderConfig(const ModelSpec& spec) {
  return {{"n_layer", spec.layers}, {"n_head", spec.heads}, {"layer_norm_epsilon", Decimal(spec.norm_eps)}};
}

Json NewerConfig(const ModelSpec& spec) {
  return {{"num_hidden_layers", spec.layers},
          {"hidden_size", spec.hidden},
          {"num_attention_heads", spec.heads},
          {"max_position_embeddings", spec.trained_context}};
}

Json T5Config(const ModelSpec& spec) {
  // The GELU of a gate is the tanh approximation, whatever its name.
  const std::string mlp =
      spec.gated
          ? fmt::format("gated-{}", spec.activation == Activation::kGeluTanh ? "gelu" : ActivationName(spec.activation))
          : std::string(ActivationName(spec.activation));
  return {{"is_encoder_decoder", true},
          {"num_layers", spec.encoder_layers},
          {"num_decoder_layers", spec.layers},
          {"d_model", spec.hidden},
          {"num_heads", spec.heads},
          {"d_kv", spec.head_dim},
          {"d_ff", spec.ffn},
          {"n_positions", spec.trained_context},
          {"layer_norm_epsilon", Decimal(spec.norm_eps)},
          {"feed_forward_proj", mlp},
          {"relative_attention_num_buckets", spec.bias_buckets},
          {"relative_attention_max_distance", spec.bias_reach},
          {"decoder_start_token_id", spec.answer_start},
          {"scale_decoder_outputs", spec.logit_scale != 1}};
}

Result<Json> KindConfig(NetworkKind kind, const ModelSpec& spec) {
  const std::string_view activation = ActivationName(spec.activation);
  Json json;
  switch (kind) {
    case NetworkKind::kGpt2:
    case NetworkKind::kGptJ:
      json = OlderConfig(spec);
      json.update({{"n_embd", spec.hidden}, {"n_positions", spec.trained_context}, {"n_inner", spec.ffn}});
      json["activation_function"] = activation;
      if (kind == NetworkKind::kGptJ) json["rotary_dim"] = spec.rotary;
      break;
    case NetworkKind::kBloom:
      json = OlderConfig(spec);
      json.update({{"hidden_size", spec.hidden}, {"seq_length", spec.trained_context}, {"n_inner", spec.ffn}});
      break;
    case NetworkKind::kOpt:
      json = NewerConfig(spec);
      json.update({{"ffn_dim", spec.ffn}, {"word_embed_proj_dim", spec.hidden}, {"do_layer_norm_before", true}});
      json["activation_function"] = activation;
      json["enable_bias"] = spec.qkv_bias;
      break;
    case NetworkKind::kGptNeoX:
      json = NewerConfig(spec);
      json.update({{"intermediate_size", spec.ffn}, {"layer_norm_eps", Decimal(spec.norm_eps)}});
      json.update({{"hidden_act", activation}, {"use_parallel_residual", spec.parallel}});
      json["attention_bias"] = spec.qkv_bias;
      json["rotary_pct"] = static_cast<double>(spec.rotary) / static_cast<double>(spec.head_dim);
      break;
    case NetworkKind::kT5:
      json = T5Config(spec);
      break;
    default:
      json = NewerConfig(spec);
      json.update({{"num_key_value_heads", spec.kv_heads}, {"head_dim", spec.head_dim}});
      json.update({{"intermediate_size", spec.ffn}, {"rms_norm_eps", Decimal(spec.norm_eps)}});
      json["hidden_act"] = activation;
      if (kind == NetworkKind::kLlama) json["attention_bias"] = spec.qkv_bias;
      break;
  }
  if (spec.rotary == 0) return json;
  ASSIGN_OR_RETURN(const double base, RotationBase(spec));
  json["rope_theta"] = base;
  return json;
}

}  // namespace

Result<NetworkKind> KindOf(const ModelFiles& files) {
  const ModelSpec& spec = files.plan.spec;
  if (files.format == Format::kFasterTransformer && spec.architecture == "gpt") {
    return spec.alibi != 0                        ? NetworkKind::kBloom
           : spec.activation == Activation::kRelu ? NetworkKind::kOpt
                                                  : NetworkKind::kGpt2;
  }
  if (files.format == Format::kMegatron) return NetworkKind::kGpt2;  // except for some of its settings
  if (spec.architecture == "mistral") return NetworkKind::kLlama;    // except for its windows
  if (spec.architecture == "mt5") return NetworkKind::kT5;
  std::vector<std::string_view> known;
  for (const KindNames& names : kKinds) {
    known.push_back(NameIn(names, files.format));
    if (known.back() == spec.architecture) return names.kind;
  }
  std::erase(known, "");
  return InvalidArgument(
      fmt::format("architecture '{}' cannot be converted; these can: {}", spec.architecture, fmt::join(known, ", ")));
}

Result<NetworkPlan> PlanTarget(NetworkKind kind, Format format, const ModelSpec& spec) {
  const KindNames& names = NamesOf(kind);
  const std::string_view name = NameIn(names, format);
  if (name.empty()) {
    return InvalidArgument(fmt::format("the target format does not support the architecture '{}'", names.huggingface));
  }
  NetworkPlan plan{.spec = spec};
  plan.spec.architecture = name;
  plan.spec.position_offset = 0;
  plan.spec.fused_qkv = format == Format::kFasterTransformer || names.fused;
  if (kind == NetworkKind::kT5) {
    PlanT5(format, &plan);
    return plan;
  }
  if (format == Format::kFasterTransformer) {
    if (!spec.qkv_bias && kind != NetworkKind::kGptJ) {
      return InvalidArgument("the target format cannot store attention without biases");
    }
    PlanTensors(FasterTransformerRules(), "model.", &plan);
    return plan;
  }
  if (format == Format::kGguf) {
    plan.spec.rope_pairs = FindGgufFamily(name)->pairs;
    PlanTensors(GgufRules(), "", &plan);
    return plan;
  }
  if (kind == NetworkKind::kOpt) plan.spec.position_offset = 2;
  if (kind == NetworkKind::kLlama) plan.spec.rope_pairs = RopePairs::kHalves;
  const HuggingFaceFamily& family = *FindHuggingFaceFamily(name, {});
  PlanTensors(RulesOf(family), family.prefix, &plan);
  return plan;
}

Result<std::string> HuggingFaceConfig(NetworkKind kind, const ModelSpec& spec, const TokenizerData& tokenizer,
                                      DType dtype) {
  const KindNames& names = NamesOf(kind);
  Json json = {{"architectures", Json::array({names.architectures})}, {"model_type", names.huggingface}};
  ASSIGN_OR_RETURN(const Json own, KindConfig(kind, spec));
  json.update(own);
  json["vocab_size"] = spec.vocab;
  json["tie_word_embeddings"] = spec.tied_head;
  json["torch_dtype"] = dtype == DType::kF32 ? "float32" : dtype == DType::kF16 ? "float16" : "bfloat16";
  if (tokenizer.bos) json["bos_token_id"] = *tokenizer.bos;
  if (tokenizer.eos) json["eos_token_id"] = *tokenizer.eos;
  return json.dump(2) + "\n";
}

Result<std::vector<GgufEntry>> GgufMetadata(NetworkKind kind, const ModelSpec& spec) {
  const std::string name(NamesOf(kind).gguf);
  std::vector<GgufEntry> out = {{"general.architecture", name}, {"general.name", spec.name}};
  const auto add = [&](std::string_view key, auto value) { out.push_back({fmt::format("{}.{}", name, key), value}); };
  add("block_count", kind == NetworkKind::kT5 ? spec.encoder_layers : spec.layers);
  add("context_length", spec.trained_context);
  add("embedding_length", spec.hidden);
  add("feed_forward_length", spec.ffn);
  add("attention.head_count", spec.heads);
  add("attention.head_count_kv", spec.kv_heads);
  add("vocab_size", spec.vocab);
  if (kind == NetworkKind::kT5) {
    add("decoder_block_count", spec.layers);
    add("decoder_start_token_id", spec.answer_start);
    add("attention.relative_buckets_count", spec.bias_buckets);
  }
  const bool rms = spec.norm == NormKind::kRms;
  add(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", Decimal(spec.norm_eps));
  if (spec.head_dim * spec.heads != spec.hidden) {
    add("attention.key_length", spec.head_dim);
    add("attention.value_length", spec.head_dim);
  }
  if (kind == NetworkKind::kGptNeoX) add("use_parallel_residual", spec.parallel);
  if (spec.rotary == 0) return out;
  ASSIGN_OR_RETURN(const double base, RotationBase(spec));
  add("rope.dimension_count", spec.rotary);
  add("rope.freq_base", base);
  return out;
}

std::string FasterTransformerConfig(NetworkKind kind, const ModelSpec& spec, const TokenizerData& tokenizer,
                                    DType dtype, int64_t gpus) {
  if (kind == NetworkKind::kT5) return T5FasterTransformerConfig(spec, tokenizer, dtype, gpus);
  std::string out = fmt::format("[{}]\n", NamesOf(kind).faster_transformer);
  const auto add = [&](std::string_view key, const auto& value) { out += fmt::format("{} = {}\n", key, value); };
  add("model_name", NamesOf(kind).huggingface);
  add("head_num", spec.heads);
  add("size_per_head", spec.head_dim);
  add("inter_size", spec.ffn);
  add("num_layer", spec.layers);
  add("vocab_size", spec.vocab);
  add("max_pos_seq_len", spec.trained_context);
  add("layernorm_eps", spec.norm_eps);
  add("activation_type", spec.activation == Activation::kGeluTanh  ? "Gelu"
                         : spec.activation == Activation::kGeluErf ? "GeluErf"
                                                                   : "Relu");
  if (kind == NetworkKind::kBloom) add("model_variant", "bloom-pre");
  if (kind == NetworkKind::kGptJ || kind == NetworkKind::kGptNeoX) {
    add("rotary_embedding", spec.rotary);
  } else {
    add("layernorm_type", "pre_layernorm");
    add("has_positional_encoding", spec.learned_positions ? "True" : "False");
    add("has_pre_decoder_layernorm", spec.embedding_norm ? "True" : "False");
    add("has_post_decoder_layernorm", "True");
    add("use_attention_linear_bias", spec.alibi != 0 ? "True" : "False");
  }
  if (kind == NetworkKind::kGptNeoX) add("use_gptj_residual", spec.parallel ? 1 : 0);
  if (tokenizer.bos) add("start_id", *tokenizer.bos);
  if (tokenizer.eos) add("end_id", *tokenizer.eos);
  add("weight_data_type", FasterTransformerType(dtype));
  add("tensor_para_size", gpus);
  return out + "\n";
}

std::string DifferentTrait(const ModelSpec& a, const ModelSpec& b) {
  const auto same_rotations = [&] {
    return std::ranges::equal(a.rotations, b.rotations, [](const Rotation& x, const Rotation& y) {
      return x.inverse_frequencies == y.inverse_frequencies && x.magnitude == y.magnitude;
    });
  };
  const auto same_layers = [&] {
    for (int64_t layer = 0; layer < a.layers; ++layer) {
      const LayerTraits x = a.Layer(layer), y = b.Layer(layer);
      if (x.window != y.window || (a.rotary > 0 && x.rotation != y.rotation)) return false;
    }
    return true;
  };
  const std::pair<const char*, bool> traits[] = {
      {"number of layers", a.layers == b.layers && a.encoder_layers == b.encoder_layers},
      {"hidden size", a.hidden == b.hidden},
      {"number of heads", a.heads == b.heads && a.kv_heads == b.kv_heads && a.head_dim == b.head_dim},
      {"vocabulary", a.vocab == b.vocab},
      {"width of the MLP", a.ffn == b.ffn},
      {"trained context", a.trained_context == b.trained_context},
      {"norm", a.norm == b.norm && a.norm_weights == b.norm_weights && a.norm_biases == b.norm_biases},
      {"norm epsilon", a.norm_eps == b.norm_eps},
      {"norm offset", a.norm_offset == b.norm_offset},
      {"place of the norms", a.norm_before == b.norm_before && a.norm_after == b.norm_after &&
                                 a.norm_sums == b.norm_sums && a.final_norm == b.final_norm},
      {"size of embeddings", a.embedding_columns() == b.embedding_columns()},
      {"parallel residual", a.parallel == b.parallel && a.shared_norm == b.shared_norm},
      {"embedding norm", a.embedding_norm == b.embedding_norm},
      {"activation", a.activation == b.activation && a.gated == b.gated},
      {"mixture of experts", a.experts == b.experts && a.shared_ffn == b.shared_ffn},
      {"attention bias", a.qkv_bias == b.qkv_bias && a.attention_out_bias == b.attention_out_bias},
      {"MLP bias", a.mlp_bias == b.mlp_bias},
      {"head bias", a.head_bias == b.head_bias},
      {"query and key norm", a.qk_norm == b.qk_norm},
      {"scale of the scores", a.query_scale == b.query_scale},
      {"soft cap", a.score_cap == b.score_cap && a.logit_cap == b.logit_cap},
      {"slopes", a.alibi == b.alibi && a.alibi_scaled == b.alibi_scaled},
      {"biases of distances", a.bias_buckets == b.bias_buckets && a.bias_reach == b.bias_reach},
      {"first token of an answer", a.answer_start == b.answer_start},
      {"latent attention", a.latent.rank == b.latent.rank},
      {"attention sinks", a.sinks == b.sinks},
      {"positions", a.learned_positions == b.learned_positions && a.sinusoidal_positions == b.sinusoidal_positions},
      {"rotation", a.rotary == b.rotary && same_rotations()},
      {"windows of the layers", same_layers()},
      {"embedding scale", a.embedding_scale == b.embedding_scale},
      {"tied head", a.tied_head == b.tied_head},
      {"logit scale", a.logit_scale == b.logit_scale},
  };
  const auto found = std::ranges::find_if(traits, [](const auto& trait) { return !trait.second; });
  return found == std::end(traits) ? "" : found->first;
}

}  // namespace ringside
