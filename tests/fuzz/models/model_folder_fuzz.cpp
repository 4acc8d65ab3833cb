// A Hugging Face folder's weights and settings. Input: config.json, generation_config.json, model.safetensors.
#include "engine/model/model.h"
#include "engine/sampling/sampling_defaults.h"
#include "kernels/backend.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds, folders = GoldenFamiliesWith("model.safetensors");
  for (const char* folder : {"llama", "qwen2", "gpt2", "packed/awq", "packed/gptq_act_order", "packed/gpt_oss_mxfp4",
                             "packed/ct_int4_zeros", "packed/ct_fp8_block", "packed/ct_nvfp4"}) {
    folders.emplace_back(folder);
  }
  for (const std::string& folder : folders) {
    seeds.push_back(JoinParts({ReadGolden(folder + "/config.json"),
                               R"({"temperature":0.6,"top_p":0.9,"top_k":20,"min_p":0.1,"eos_token_id":[1,2]})",
                               ReadGolden(folder + "/model.safetensors")}));
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
