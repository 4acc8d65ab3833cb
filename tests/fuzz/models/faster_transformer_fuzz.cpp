// A FasterTransformer checkpoint folder. Input: config.ini, then name and bytes of each tensor file in turn.
#include <algorithm>
#include <filesystem>

#include "engine/model/model.h"
#include "kernels/backend.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {

namespace {

constexpr size_t kWidth = 4, kInner = 8, kVocabulary = 8, kPositions = 8, kGpus = 2, kBuckets = 12, kHeads = 2;

std::string Bytes(size_t values) { return std::string(values * 2, '\x2c'); }  // float16: 0.07

void Put(const std::string& name, size_t values, bool cut, std::vector<std::string>* parts,
         const std::string& prefix = "model.") {
  for (size_t gpu = 0; gpu < (cut ? kGpus : 1); ++gpu) {
    parts->push_back(prefix + name + (cut ? "." + std::to_string(gpu) : "") + ".bin");
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

// An encoder and a decoder of one layer, for two GPUs.
std::string T5Folder() {
  const std::string sizes =
      "num_heads = 2\nd_kv = 2\nd_model = 4\nd_ff = 8\nvocab_size = 8\nnum_layers = 1\nweight_data_type = fp16\n"
      "relative_attention_num_buckets_or_max_pos_seq_len = 12\nrelative_attention_max_distance = 20\n"
      "feed_forward_proj = gated-gelu\ntie_word_embeddings = False\neos_token_id = 7\n";
  std::vector<std::string> parts = {"[encoder]\n" + sizes + "[decoder]\n" + sizes +
                                    "[structure]\nt5_with_bias = false\nposition_embedding_type = relative\n"};
  const auto put = [&](const std::string& name, size_t values, bool cut) { Put(name, values, cut, &parts, ""); };
  put("shared.weight_T", kVocabulary * kWidth, false);
  put("lm_head.weight", kVocabulary * kWidth, false);
  for (const bool decodes : {false, true}) {
    const std::string part = decodes ? "decoder." : "encoder.", layer = part + "block.0.layer.";
    put(part + "final_layer_norm.weight", kWidth, false);
    for (int i = 0; i < (decodes ? 3 : 2); ++i) put(layer + std::to_string(i) + ".layer_norm.weight", kWidth, false);
    put(layer + "0.SelfAttention.relative_attention_bias.weight", kBuckets * kHeads, true);
    put(layer + "0.SelfAttention.o.weight", kWidth * kWidth, true);
    if (decodes) put(layer + "0.SelfAttention.qkv.weight", 3 * kWidth * kWidth, true);
    for (const std::string kind : {"q", "k", "v", "o"}) {
      if (decodes) put(layer + "1.EncDecAttention." + kind + ".weight", kWidth * kWidth, true);
      if (!decodes && kind != "o") put(layer + "0.SelfAttention." + kind + ".weight", kWidth * kWidth, true);
    }
    for (const std::string kind : {"wi", "wi2", "wo"}) {
      put(layer + (decodes ? "2" : "1") + ".DenseReluDense." + kind + ".weight", kWidth * kInner, true);
    }
  }
  return JoinParts(parts);
}

bool IsName(std::string_view name) {
  if (name.size() >= 200 || name.find_first_of(std::string_view("/\0", 2)) != std::string_view::npos) return false;
  constexpr std::string_view kPrefixes[] = {"model.", "encoder.", "decoder.", "shared.", "lm_head."};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
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
                                    Folder("gptneox", "rotary_embedding = 2\nuse_gptj_residual = 1\n"), T5Folder()};
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
