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
                                            "qwen3_vl_moe"};

inline std::string FamilyFolder(const std::string& name) { return GoldenFolder("families/" + name); }

}  // namespace ringside
