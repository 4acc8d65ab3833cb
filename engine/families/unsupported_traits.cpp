#include "engine/families/unsupported_traits.h"

#include <algorithm>
#include <iterator>

namespace ringside {
namespace {

constexpr std::string_view kIndexer = "sparse attention, whose keys an indexer chooses (DSA)",
                           kHyper = "hyper-connections, and sparse attention, whose keys an indexer chooses (DSA)",
                           kCompressed = "compressed attention (CSA, HCA) and hyper-connections",
                           kMamba1 = "Mamba-1 layers, whose decays differ by channel and state",
                           kNoAttention = "no layer with attention", kValueSizes = "keys and values of different sizes",
                           kLimits = "limits of activations that differ between layers";

struct KnownArchitecture {
  std::string_view name;
  UnsupportedTrait needs;
};
constexpr KnownArchitecture kKnown[] = {
    {"deepseek_v32", {kIndexer, "DeepSeek-V3.1"}},
    {"deepseek32", {kIndexer, "DeepSeek-V3.1"}},
    {"glm_moe_dsa", {kIndexer, "GLM-4.7"}},
    {"glm-dsa", {kIndexer, "GLM-4.7"}},
    {"mistral_large4", {kIndexer, "Mistral Small 4"}},
    {"mistral_large4_text", {kIndexer, "Mistral Small 4"}},
    {"minimax_m3_vl", {kIndexer, "MiniMax-M2"}},
    {"minimax_m3_vl_text", {kIndexer, "MiniMax-M2"}},
    {"minimax-m3", {kIndexer, "MiniMax-M2"}},
    {"glm5_next", {kHyper, "GLM-4.7-Flash"}},
    {"glm5_next_text", {kHyper, "GLM-4.7-Flash"}},
    {"glm5-next", {kHyper, "GLM-4.7-Flash"}},
    {"hy_v4", {kHyper, "Hy3"}},
    {"qwen4_exp", {kHyper, "Qwen3.6-35B-A3B"}},
    {"qwen4_exp_text", {kHyper, "Qwen3.6-35B-A3B"}},
    {"qwen4exp", {kHyper, "Qwen3.6-35B-A3B"}},
    {"deepseek_v4", {kCompressed, "DeepSeek-V3.1"}},
    {"deepseek4", {kCompressed, "DeepSeek-V3.1"}},
    {"jamba", {kMamba1, "Granite 4"}},
    {"mamba", {kMamba1, "Granite 4"}},
    {"falcon_mamba", {kMamba1, "Falcon-H1"}},
    {"mamba2", {kNoAttention, "Nemotron-H"}},
    {"rwkv", {kNoAttention, "Qwen3.5"}},
    {"rwkv6", {kNoAttention, "Qwen3.5"}},
    {"rwkv7", {kNoAttention, "Qwen3.5"}},
    {"mimo_v2_flash", {kValueSizes, "GLM-4.7"}},
    {"mimo2", {kValueSizes, "GLM-4.7"}},
    {"step3p5", {kLimits, "MiniMax-M2"}},
    {"step3p7", {kLimits, "MiniMax-M2"}},
    {"step35", {kLimits, "MiniMax-M2"}},
    {"kimi_k3", {"residuals that attend to earlier layers (AttnRes)", "Kimi K2"}},
    {"kimi-k3", {"residuals that attend to earlier layers (AttnRes)", "Kimi K2"}},
    {"minimax", {"lightning attention", "MiniMax-M2"}},
    {"minimax01", {"lightning attention", "MiniMax-M2"}},
    {"bailing_hybrid", {"Kimi Delta Attention with bounded decays", "Kimi Linear"}},
    {"longcat_flash", {"experts that return their input", "DeepSeek-V3.1"}},
};

}  // namespace

UnsupportedTrait FindUnsupportedTrait(std::string_view architecture) {
  const auto* known = std::ranges::find(kKnown, architecture, &KnownArchitecture::name);
  return known == std::end(kKnown) ? UnsupportedTrait() : known->needs;
}

std::string_view NearestArchitecture(std::string_view architecture, std::span<const std::string_view> supported) {
  constexpr size_t kLeast = 3;
  std::string_view nearest;
  size_t most = 0;
  const auto unlike = [&](std::string_view name) {
    return std::max(name.size(), architecture.size()) - std::min(name.size(), architecture.size());
  };
  for (const std::string_view name : supported) {
    const auto first = static_cast<size_t>(std::ranges::mismatch(architecture, name).in1 - architecture.begin());
    const size_t rest = std::min(architecture.size(), name.size()) - first;
    size_t last = 0;
    while (last < rest && architecture[architecture.size() - 1 - last] == name[name.size() - 1 - last]) ++last;
    if (first < kLeast || first + last < most) continue;
    if (first + last > most || unlike(name) <= unlike(nearest)) nearest = name;
    most = first + last;
  }
  return nearest;
}

}  // namespace ringside
