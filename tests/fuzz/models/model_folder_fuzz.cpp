// A Hugging Face folder's weights and settings. Input: config.json, generation_config.json, model.safetensors.
#include "engine/model/model.h"
#include "engine/sampling/sampling_defaults.h"
#include "kernels/backend.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const std::string family : {"llama",
                                   "qwen2",
                                   "gpt2",
                                   "packed/awq",
                                   "packed/gptq_act_order",
                                   "packed/gpt_oss_mxfp4",
                                   "packed/ct_int4_zeros",
                                   "packed/ct_fp8_block",
                                   "packed/ct_nvfp4",
                                   "families/mistral3",
                                   "families/gemma3_wrapper",
                                   "families/qwen3_vl_moe",
                                   "families/glm4_moe",
                                   "families/minimax_m2",
                                   "families/ministral3",
                                   "families/seed_oss",
                                   "families/ernie4_5",
                                   "families/ernie4_5_moe",
                                   "families/hunyuan_v1_dense",
                                   "families/exaone4",
                                   "families/apertus",
                                   "families/arcee",
                                   "families/qwen3_next",
                                   "families/qwen3_5",
                                   "families/deepseek_v3",
                                   "families/mistral4",
                                   "families/gemma4",
                                   "families/gemma4_moe",
                                   "families/llama4_text",
                                   "families/laguna",
                                   "families/afmoe",
                                   "families/lfm2",
                                   "families/lfm2_moe",
                                   "families/granitemoehybrid",
                                   "families/nemotron_h",
                                   "families/olmo_hybrid",
                                   "families/kimi_linear"}) {
    seeds.push_back(JoinParts({ReadGolden(family + "/config.json"),
                               R"({"temperature":0.6,"top_p":0.9,"top_k":20,"min_p":0.1,"eos_token_id":[1,2]})",
                               ReadGolden(family + "/model.safetensors")}));
  }
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  static const InputFolder folder;
  static const std::unique_ptr<Backend> backend = std::move(MakeCpuBackend({.threads = 1}).value());
  const auto parts = SplitParts(data, size, 3);
  folder.Write("config.json", parts[0]);
  folder.Write("generation_config.json", parts[1]);
  folder.Write("model.safetensors", parts[2]);
  (void)ReadSamplingDefaults(folder.path());
  (void)Model::Load(folder.path(), *backend);
  return 0;
}
