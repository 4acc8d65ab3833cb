// The families whose tiny golden models are in tests/golden/families.
#pragma once

#include <string>

#include "tests/golden_folder.h"

namespace ringside {

inline constexpr const char* kFamilies[] = {"mistral_window",
                                            "gemma",
                                            "gemma2",
                                            "gemma3",
                                            "phi3",
                                            "phi3_longrope",
                                            "phi",
                                            "gpt_neox",
                                            "gpt_neox_serial",
                                            "gptj",
                                            "opt",
                                            "bloom",
                                            "falcon",
                                            "falcon_grouped",
                                            "mpt",
                                            "starcoder2",
                                            "stablelm",
                                            "stablelm_parallel",
                                            "olmo",
                                            "olmo2",
                                            "granite",
                                            "smollm3",
                                            "xglm",
                                            "cohere",
                                            "mixtral",
                                            "qwen2_moe",
                                            "qwen3_moe",
                                            "olmoe",
                                            "gpt_oss",
                                            "ministral",
                                            "olmo3",
                                            "granitemoe",
                                            "cohere2",
                                            "gpt_bigcode",
                                            "opt_post",
                                            "opt_no_final_norm",
                                            "falcon_alibi",
                                            "mistral3",
                                            "gemma3_wrapper",
                                            "qwen2_5_vl",
                                            "qwen3_vl",
                                            "qwen3_vl_moe",
                                            "glm4_moe",
                                            "glm4_moe_plain",
                                            "minimax_m2",
                                            "ministral3",
                                            "seed_oss",
                                            "ernie4_5",
                                            "ernie4_5_moe",
                                            "hunyuan_v1_dense",
                                            "exaone4",
                                            "apertus",
                                            "arcee",
                                            "smollm3_fourth",
                                            "qwen3_next",
                                            "qwen3_5_text",
                                            "qwen3_5_moe_text",
                                            "qwen3_5",
                                            "qwen3_5_moe",
                                            "lfm2",
                                            "lfm2_moe",
                                            "granitemoehybrid",
                                            "granitemoehybrid_dense",
                                            "nemotron_h",
                                            "lfm2_biases",
                                            "deepseek_v2",
                                            "deepseek_v3",
                                            "glm4_moe_lite",
                                            "mistral4",
                                            "kimi_k25",
                                            "gemma4",
                                            "gemma4_moe",
                                            "gemma4_wrapper",
                                            "gemma4_unified_text",
                                            "gemma3n_text",
                                            "llama4_text",
                                            "afmoe",
                                            "laguna",
                                            "phimoe",
                                            "muse_glimmer",
                                            "kimi_linear",
                                            "olmo_hybrid"};

/// Models that are stored as GGUF alone: converters store less of these families, or other layers.
inline constexpr const char* kGgufFamilies[] = {"granitehybrid_gguf", "nemotron_h_gguf",  "nemotron_h_moe_gguf",
                                                "llama4_gguf",        "laguna_gguf",      "kimi_linear_gguf",
                                                "phimoe_gguf",        "ernie4_5_moe_gguf"};

/// Those with recurrent layers.
inline constexpr const char* kRecurrentFamilies[] = {
    "qwen3_next",  "qwen3_5_text",     "qwen3_5_moe_text",       "qwen3_5",    "qwen3_5_moe", "lfm2",       "lfm2_moe",
    "lfm2_biases", "granitemoehybrid", "granitemoehybrid_dense", "nemotron_h", "kimi_linear", "olmo_hybrid"};

/// Families that need an operation which not every device has, and what the refusal of another device names.
struct FamilyNeed {
  std::string family, what;
};
inline const FamilyNeed kFamilyNeeds[] = {{"glm4_moe", "a sigmoid router"},
                                          {"glm4_moe_plain", "a sigmoid router"},
                                          {"minimax_m2", "a sigmoid router"},
                                          {"ernie4_5_moe", "a router with corrections, groups or a scale"},
                                          {"ministral3", "attention scores scaled by position"},
                                          {"hunyuan_v1_dense", "norms of rotated queries and keys"},
                                          {"apertus", "the activation xIELU"},
                                          {"qwen3_next", "gated DeltaNet layers"},
                                          {"qwen3_5_text", "gated DeltaNet layers"},
                                          {"qwen3_5_moe_text", "gated DeltaNet layers"},
                                          {"qwen3_5", "gated DeltaNet layers"},
                                          {"qwen3_5_moe", "gated DeltaNet layers"},
                                          {"lfm2", "short convolutions"},
                                          {"lfm2_moe", "a sigmoid router"},
                                          {"granitemoehybrid", "Mamba-2 layers"},
                                          {"granitemoehybrid_dense", "Mamba-2 layers"},
                                          {"nemotron_h", "a sigmoid router"},
                                          {"deepseek_v2", "multi-head latent attention"},
                                          {"mistral4", "multi-head latent attention"},
                                          {"gemma4", "attention heads that differ between layers"},
                                          {"gemma4_moe", "attention heads that differ between layers"},
                                          {"gemma3n_text", "layers that share keys and values"},
                                          {"llama4_text", "attention in chunks"},
                                          {"afmoe", "norms after a mixture of experts"},
                                          {"laguna", "numbers of heads that differ between layers"},
                                          {"phimoe", "a router with margins or scaled inputs"},
                                          {"muse_glimmer", "a gate of the attention's output"},
                                          {"kimi_linear", "multi-head latent attention"},
                                          {"olmo_hybrid", "gated DeltaNet layers"}};

inline std::string FamilyFolder(const std::string& name) { return GoldenFolder("families/" + name); }

}  // namespace ringside
