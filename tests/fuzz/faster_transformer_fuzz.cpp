// A checkpoint folder of FasterTransformer. Input: config.ini, then name and bytes of each model.*.bin in turn.
#include <filesystem>

#include "engine/model/model.h"
#include "kernels/backend.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {

namespace {

constexpr size_t kWidth = 4, kInner = 8, kVocabulary = 8, kPositions = 8, kGpus = 2;

std::string Bytes(size_t values) { return std::string(values * 2, '\x2c'); }  // float16: 0.07

void Put(const std::string& name, size_t values, bool cut, std::vector<std::string>* parts) {
  for (size_t gpu = 0; gpu < (cut ? kGpus : 1); ++gpu) {
    parts->push_back("model." + name + (cut ? "." + std::to_string(gpu) : "") + ".bin");
    parts->push_back(Bytes(values / (cut ? kGpus : 1)));
  }
}

// One layer of a network of that section, for two GPUs.
std::string Folder(const std::string& section, const std::string& more) {
  std::vector<std::string> parts = {
      "[" + section +
      "]\nhead_num = 2\nsize_per_head = 2\ninter_size = 8\nnum_layer = 1\nvocab_size = 8\n"
      "weight_data_type = fp16\ntensor_para_size = 2\nend_id = 7\n" +
      more};
  Put("wte", kVocabulary * kWidth, false, &parts);
  if (section == "gpt") Put("wpe", kPositions * kWidth, false, &parts);
  if (section != "gpt") Put("lm_head.weight", kVocabulary * kWidth, false, &parts);
  if (section == "gptj") Put("lm_head.bias", kVocabulary, false, &parts);
  const std::string layer = "layers.0.";
  for (const std::string part : {"weight", "bias"}) {
    Put("final_layernorm." + part, kWidth, false, &parts);
    Put(layer + "input_layernorm." + part, kWidth, false, &parts);
    if (section != "gptj") Put(layer + "post_attention_layernorm." + part, kWidth, false, &parts);
  }
  Put(layer + "attention.query_key_value.weight", 3 * kWidth * kWidth, true, &parts);
  Put(layer + "attention.dense.weight", kWidth * kWidth, true, &parts);
  Put(layer + "mlp.dense_h_to_4h.weight", kWidth * kInner, true, &parts);
  Put(layer + "mlp.dense_h_to_4h.bias", kInner, true, &parts);
  Put(layer + "mlp.dense_4h_to_h.weight", kInner * kWidth, true, &parts);
  Put(layer + "mlp.dense_4h_to_h.bias", kWidth, false, &parts);
  if (section == "gptj") return JoinParts(parts);
  Put(layer + "attention.query_key_value.bias", 3 * kWidth, true, &parts);
  Put(layer + "attention.dense.bias", kWidth, false, &parts);
  return JoinParts(parts);
}

bool IsName(std::string_view name) {
  return !name.empty() && name.size() < 200 &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos && name.starts_with("model.");
}

Status Load(std::string_view input) {
  static const InputFolder folder;
  static const std::unique_ptr<Backend> backend = std::move(MakeCpuBackend({.threads = 1}).value());
  const auto parts = SplitParts(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  std::vector<std::string> written = {folder.Write("config.ini", parts[0])};
  for (size_t i = 1; i + 1 < parts.size() && written.size() < 64; i += 2) {
    if (IsName(parts[i])) written.push_back(folder.Write(parts[i], parts[i + 1]));
  }
  const Status status = Model::Load(folder.path(), *backend).status();
  for (const std::string& file : written) std::filesystem::remove(file);
  return status;
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds = {Folder("gpt", "max_pos_seq_len = 8\nactivation_type = Relu\nlayernorm_eps=1e-5\n"),
                                    Folder("gptj", "rotary_embedding = 2\n"),
                                    Folder("gptneox", "rotary_embedding = 2\nuse_gptj_residual = 1\n")};
  for (const std::string& seed : seeds) {
    const Status loaded = Load(seed);
    Require(loaded.ok(), "a seed is a folder that loads: " + loaded.message());
  }
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)ringside::Load({reinterpret_cast<const char*>(data), size});
  return 0;
}
