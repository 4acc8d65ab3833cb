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
  std::string_view name, trait;
};
constexpr KnownArchitecture kKnown[] = {
    {"deepseek_v32", kIndexer},
    {"deepseek32", kIndexer},
    {"glm_moe_dsa", kIndexer},
    {"glm-dsa", kIndexer},
    {"mistral_large4", kIndexer},
    {"mistral_large4_text", kIndexer},
    {"minimax_m3_vl", kIndexer},
    {"minimax_m3_vl_text", kIndexer},
    {"minimax-m3", kIndexer},
    {"glm5_next", kHyper},
    {"glm5_next_text", kHyper},
    {"glm5-next", kHyper},
    {"hy_v4", kHyper},
    {"qwen4_exp", kHyper},
    {"qwen4_exp_text", kHyper},
    {"qwen4exp", kHyper},
    {"deepseek_v4", kCompressed},
    {"deepseek4", kCompressed},
    {"jamba", kMamba1},
    {"mamba", kMamba1},
    {"falcon_mamba", kMamba1},
    {"mamba2", kNoAttention},
    {"rwkv", kNoAttention},
    {"rwkv6", kNoAttention},
    {"rwkv7", kNoAttention},
    {"mimo_v2_flash", kValueSizes},
    {"mimo2", kValueSizes},
    {"step3p5", kLimits},
    {"step3p7", kLimits},
    {"step35", kLimits},
    {"kimi_k3", "residuals that attend to earlier layers (AttnRes)"},
    {"kimi-k3", "residuals that attend to earlier layers (AttnRes)"},
    {"minimax", "lightning attention"},
    {"minimax01", "lightning attention"},
    {"bailing_hybrid", "Kimi Delta Attention with bounded decays"},
    {"longcat_flash", "experts that return their input"},
};

}  // namespace

std::string_view UnsupportedTrait(std::string_view architecture) {
  const auto* known = std::ranges::find(kKnown, architecture, &KnownArchitecture::name);
  return known == std::end(kKnown) ? std::string_view() : known->trait;
}

}  // namespace ringside
