// LoRA adapters in both formats and soft prompts, on a model that they may fit. Input: adapter_config.json,
// adapter_model.safetensors, a GGUF file.
#include "engine/families/network_plan.h"
#include "engine/model/adapters/adapter_weights.h"
#include "kernels/backend.h"
#include "tests/engine/files/gguf_file_writer.h"
#include "tests/engine/files/safetensors_file_writer.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {

std::vector<std::string> Seeds() {
  const std::vector<float> values(128, 0.25f);
  std::vector<std::string> seeds;
  for (const std::string module : {"self_attn.q_proj", "self_attn.v_proj"}) {
    const std::string name = "base_model.model.model.layers.1." + module;
    const int64_t outputs = module == "self_attn.q_proj" ? 64 : 32;
    SafeTensorsFileWriter peft;
    peft.Add(name + ".lora_A.weight", std::vector<int64_t>{2, 32}, std::span(values).first(64));
    peft.Add(name + ".lora_B.weight", std::vector<int64_t>{outputs, 2}, std::span(values).first(2 * outputs));
    GgufFileWriter gguf;
    gguf.String("general.type", "adapter").String("adapter.type", "lora").String("general.architecture", "llama");
    gguf.F32("adapter.lora.alpha", 4).Ones("blk.0.attn_q.weight.lora_a", {32, 2});
    gguf.Ones("blk.0.attn_q.weight.lora_b", {2, 64});
    seeds.push_back(JoinParts({R"({"peft_type":"LORA","r":2,"lora_alpha":4,"use_rslora":true,"bias":"none",
                                   "rank_pattern":{"q_proj":2},"alpha_pattern":{"v_proj":1.5},
                                   "target_modules":["q_proj","v_proj"],"modules_to_save":null})",
                               peft.Finish(), gguf.Finish()}));
  }
  SafeTensorsFileWriter table;
  table.Add("prompt_embeddings", std::vector<int64_t>{4, 32}, std::span(values).first(128));
  seeds.push_back(JoinParts({R"({"peft_type":"PROMPT_TUNING","num_virtual_tokens":4,"token_dim":32,
                                 "num_transformer_submodules":1})",
                             table.Finish(), ""}));
  return seeds;
}

}  // namespace ringside

namespace ringside {
namespace {

/// The model that adapters are matched with: the golden Llama, in one kind of file.
struct Target {
  NetworkPlan plan;
  bool gguf;
  Shard shard;

  Target(NetworkPlan the_plan, bool is_gguf)
      : plan(std::move(the_plan)), gguf(is_gguf), shard(MakeShards(plan.spec, {.tensor = 2}).value().back()) {}
};

Target HuggingFace(const InputFolder& folder) {
  const auto config = FlatJson::ReadFile(folder.Write("config.json", ReadGolden("llama/config.json")));
  return {PlanHuggingFace(*config, {}, folder.path()).value(), false};
}

Target Gguf(const InputFolder& folder) {
  const std::string path = folder.Write("model.gguf", ReadGolden("llama/model.gguf"));
  return {PlanGguf(*GgufFile::Open(path), path).value(), true};
}

}  // namespace
}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  static const InputFolder folder;
  static const std::unique_ptr<Backend> backend = std::move(MakeCpuBackend({.threads = 1}).value());
  static const Target targets[] = {HuggingFace(folder), Gguf(folder)};
  const auto parts = SplitParts(data, size, 3);
  folder.Write("adapter_config.json", parts[0]);
  folder.Write("adapter_model.safetensors", parts[1]);
  const std::string gguf = folder.Write("adapter.gguf", parts[2]);
  for (const std::string& path : {folder.path(), gguf}) {
    const Result<AdapterFile> file = ReadAdapter(path);
    if (!file.ok()) continue;
    (void)file->Digest();
    for (const Target& target : targets) {
      (void)LoadAdapter(*file, target.plan.tensors, target.gguf, target.plan.spec, target.shard, *backend);
    }
  }
  for (const std::string& path : {folder.path(), folder.path() + "/adapter_model.safetensors"}) {
    const Result<SoftPrompt> prompt = ReadSoftPrompt(path);
    if (!prompt.ok()) continue;
    (void)prompt->Digest();
    (void)LoadSoftPrompt(*prompt, targets[0].plan.spec, MakeShards(targets[0].plan.spec, {})->front(), *backend);
  }
  return 0;
}
