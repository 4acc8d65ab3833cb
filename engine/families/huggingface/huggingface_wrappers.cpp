#include "engine/families/huggingface/huggingface_wrappers.h"

#include <algorithm>
#include <array>

namespace ringside {
namespace {

/// A wrapper and the family of its text network, if the file does not name it.
struct Wrapper {
  std::string_view type, text;
};
constexpr Wrapper kWrappers[] = {
    {"gemma3", "gemma3_text"},
    {"gemma3n", "gemma3n_text"},
    {"gemma4", "gemma4_text"},
    {"gemma4_unified", "gemma4_unified_text"},
    {"kimi_k25", "deepseek_v3"},
    {"llama4", "llama4_text"},
    {"llava", "llama"},
    {"mistral3", "mistral"},
    {"muse_glimmer", "muse_glimmer_text"},
    {"qwen2_5_vl", "qwen2"},
    {"qwen2_vl", "qwen2"},
    {"qwen3_5", "qwen3_5_text"},
    {"qwen3_5_moe", "qwen3_5_moe_text"},
    {"qwen3_vl", "qwen3_vl_text"},
    {"qwen3_vl_moe", "qwen3_vl_moe_text"},
};

/// Sizes of a text network that LLaVA's files omit: the defaults of its class.
struct OmittedSizes {
  std::string_view text;
  int64_t layers, hidden, heads, kv_heads, ffn, vocab, context;
};
constexpr OmittedSizes kOmittedSizes[] = {
    {"llama", 32, 4096, 32, 0, 11008, 32000, 2048},
    {"mistral", 32, 4096, 32, 8, 14336, 32000, 131072},
};

// As saved since transformers 4.52, and before.
constexpr TextTensors kLayouts[] = {
    {"model.language_model.", ""}, {"language_model.model.", "language_model."}, {"model.", ""}};

}  // namespace

Result<TextConfig> FindTextConfig(const FlatJson& config) {
  const auto type = config.String("model_type");
  if (!type) return InvalidArgument("config.json: 'model_type' is missing");
  const auto* wrapper = std::ranges::find(kWrappers, *type, &Wrapper::type);
  if (wrapper == std::end(kWrappers)) return TextConfig{.type = *type};
  const std::string text(wrapper->text);
  // The first Qwen2-VL files have the text network's keys at the top.
  if (!config.Has("text_config")) return TextConfig{.type = text, .wrapped = true};
  return TextConfig{config.String("text_config.model_type").value_or(text), "text_config.", true};
}

void SetOmittedSizes(const FlatJson& config, const TextConfig& text, ModelSpec* spec) {
  const auto* sizes = std::ranges::find(kOmittedSizes, text.type, &OmittedSizes::text);
  if (config.String("model_type") != "llava" || sizes == std::end(kOmittedSizes)) return;
  spec->layers = sizes->layers, spec->hidden = sizes->hidden, spec->heads = sizes->heads;
  spec->kv_heads = sizes->kv_heads, spec->ffn = sizes->ffn;
  spec->vocab = sizes->vocab, spec->trained_context = sizes->context;
}

TextTensors FindTextTensors(std::string_view embedding, std::span<const std::string_view> names) {
  for (const TextTensors& layout : kLayouts) {
    const std::string name = std::string(layout.prefix) + std::string(embedding);
    if (std::ranges::find(names, name) != names.end()) return layout;
  }
  return kLayouts[0];
}

std::span<const std::string_view> WrapperTypes() {
  static const auto kTypes = [] {
    std::array<std::string_view, std::size(kWrappers)> types;
    std::ranges::transform(kWrappers, types.begin(), &Wrapper::type);
    return types;
  }();
  return kTypes;
}

std::span<const std::string_view> OtherInputs() {
  static constexpr std::string_view kParts[] = {
      "vision_tower.",
      "multi_modal_projector.",
      "visual.",
      "mm_projector.",
      "audio_tower.",
      "embed_vision.",
      "embed_audio.",
      "model.vision_tower.",
      "model.visual.",
      "model.multi_modal_projector.",
      "model.mm_projector.",
      "model.audio_tower.",
      "model.embed_vision.",
      "model.embed_audio.",
      "vision_model.",
      "model.vision_adapter.",
      "model.vision_projection.",
      "vision_embedder.",
      "model.vision_embedder.",
  };
  return kParts;
}

}  // namespace ringside
