#include "engine/convert/t5_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/convert/format_words.h"
#include "engine/families/gguf/gguf_families.h"
#include "engine/families/huggingface/huggingface_families.h"
#include "engine/import/faster_transformer_section.h"

namespace ringside {
namespace {

using Format = ModelFiles::Format;

std::vector<TensorRule> SafetensorsRules(const ModelSpec& spec) {
  for (const HuggingFaceFamily& family : EncoderDecoderFamilies()) {
    const std::vector<TensorRule> rules = RulesOf(family);
    const bool gates = std::ranges::any_of(rules, [](const auto& rule) { return rule.role == TensorRole::kGate; });
    if (gates == spec.gated) return rules;
  }
  return {};
}

}  // namespace

void PlanT5(Format format, NetworkPlan* plan) {
  if (format == Format::kSafetensors) return PlanTensors(SafetensorsRules(plan->spec), "", plan);
  if (format == Format::kGguf) return PlanTensors(GgufT5Rules(), "", plan);
  const ModelSpec& spec = plan->spec;
  PlanTensors(FasterTransformerT5Rules(spec), "", plan);
  // FasterTransformer also needs the transposed table, and a head tensor even if it is tied.
  plan->tensors.push_back({.role = TensorRole::kEmbedding,
                           .name = "shared.weight",
                           .shape = {spec.hidden, spec.vocab},
                           .transposed = true});
  if (!spec.tied_head) return;
  plan->tensors.push_back(
      {.role = TensorRole::kEmbedding, .name = "lm_head.weight", .shape = {spec.vocab, spec.hidden}});
}

std::string T5FasterTransformerConfig(const ModelSpec& spec, const TokenizerData& tokenizer, DType dtype,
                                      int64_t gpus) {
  std::string out;
  const auto add = [&](std::string_view key, const auto& value) { out += fmt::format("{} = {}\n", key, value); };
  for (const bool encoder : {true, false}) {
    out += encoder ? "[encoder]\n" : "[decoder]\n";
    add("model_name", "t5");
    add("num_layers", encoder ? spec.encoder_layers : spec.layers);
    add("d_model", spec.hidden);
    add("num_heads", spec.heads);
    add("d_kv", spec.head_dim);
    add("d_ff", spec.ffn);
    add("vocab_size", spec.vocab);
    add("n_positions", spec.trained_context);
    add("relative_attention_num_buckets_or_max_pos_seq_len", spec.bias_buckets);
    add("relative_attention_max_distance", spec.bias_reach);
    add("layer_norm_epsilon", spec.norm_eps);
    add("feed_forward_proj", spec.gated ? "gated-gelu" : "relu");
    add("tie_word_embeddings", spec.tied_head ? "True" : "False");
    add("decoder_start_token_id", spec.answer_start);
    if (tokenizer.bos) add("start_id", *tokenizer.bos);
    if (tokenizer.eos) add("eos_token_id", *tokenizer.eos);
    add("weight_data_type", FasterTransformerType(dtype));
    add("tensor_para_size", gpus);
    out += "\n";
  }
  return out + fmt::format(
                   "[structure]\nt5_with_bias = false\nuse_gated_activation = {}\n"
                   "position_embedding_type = relative\n",
                   spec.gated ? 1 : 0);
}

}  // namespace ringside
