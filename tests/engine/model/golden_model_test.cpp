// Logits of tiny random models of every family and file type against the reference implementations
// (tests/golden/make_golden.py).
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/engine/model/model_run.h"

namespace ringside {
namespace {

struct Golden {
  const char* folder;        // under tests/golden; contains logits.f32
  const char* file = "";     // a GGUF file in it; "" = the Hugging Face folder
  const char* weights = "";  // the folder whose model.safetensors belong to this config.json
  double tolerance = 1e-4;   // relative to the largest logit
};

std::string GoldenName(const ::testing::TestParamInfo<Golden>& info) {
  return std::string(info.param.folder) + (*info.param.file != '\0' ? "_gguf_file" : "");
}

class GoldenModel : public ::testing::TestWithParam<Golden> {
 protected:
  // The path to load: a variant gets a folder with its config and the other's weights.
  std::string Path() {
    const Golden& golden = GetParam();
    if (*golden.file != '\0') return GoldenFolder(golden.folder) + "/" + golden.file;
    if (*golden.weights == '\0') return GoldenFolder(golden.folder);
    joined_ = ::testing::TempDir() + "golden_" + golden.folder + std::to_string(::getpid());
    std::filesystem::create_directories(joined_);
    std::filesystem::copy_file(GoldenFolder(golden.folder) + "/config.json", joined_ + "/config.json",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::copy_file(GoldenFolder(golden.weights) + "/model.safetensors", joined_ + "/model.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
    return joined_;
  }
  ~GoldenModel() override {
    if (!joined_.empty()) std::filesystem::remove_all(joined_);
  }

  std::string joined_;
};

TEST_P(GoldenModel, LogitsEqualTheReference) {
  const auto backend = MakeTestBackend();
  auto model = Model::Load(Path(), *backend);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const std::vector<float> want = ReadFloats(GoldenFolder(GetParam().folder) + "/logits.f32");
  const std::vector<TokenId> ids = GoldenIds();
  ASSERT_EQ(want.size(), ids.size() * static_cast<size_t>((*model)->spec().vocab));
  OwnCache cache(**model, {0, 64, Eviction::kToken}, 16);
  const double error = RelativeError(RunAll(**model, cache.get(), ids, 16), want);
  RecordProperty("relative_error", std::to_string(error));
  EXPECT_LT(error, GetParam().tolerance);
}

// Four significant bits per key and value: far from the reference, on random weights, but still correlated.
TEST(GoldenModelE4M3, OneByteCacheStaysNearTheReference) {
  const auto backend = MakeTestBackend();
  for (const char* name : {"llama", "qwen3", "gpt2"}) {
    auto model = Model::Load(GoldenFolder(name), *backend);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    OwnCache cache(**model, {0, 64, Eviction::kToken}, 16, DType::kF8E4M3);
    const double error =
        NormError(RunAll(**model, cache.get(), GoldenIds(), 16), ReadFloats(GoldenFolder(name) + "/logits.f32"));
    std::printf("%s: %.2e\n", name, error);
    EXPECT_LT(error, 0.06) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, GoldenModel,
                         ::testing::Values(Golden{"llama"}, Golden{"llama_rope_llama3", "", "llama"},
                                           Golden{"llama_rope_linear", "", "llama"},
                                           Golden{"llama_rope_yarn", "", "llama"}, Golden{"llama_biases"},
                                           Golden{"mistral"}, Golden{"qwen2"}, Golden{"qwen3"}, Golden{"gpt2"}),
                         GoldenName);
INSTANTIATE_TEST_SUITE_P(Gguf, GoldenModel,
                         ::testing::Values(Golden{"llama", "model.gguf"}, Golden{"llama_rope_llama3", "model.gguf"},
                                           Golden{"qwen2", "model.gguf"}, Golden{"qwen3", "model.gguf"},
                                           Golden{"gpt2", "model.gguf"}, Golden{"gguf_f16", "model.gguf"},
                                           Golden{"gguf_bf16", "model.gguf"}),
                         GoldenName);
// Against float arithmetic on the same dequantized weights: the difference is the rounding of activations to int8.
INSTANTIATE_TEST_SUITE_P(
    Quantised, GoldenModel,
    ::testing::Values(Golden{"gguf_q8_0", "model.gguf", "", 0.05}, Golden{"gguf_q4_0", "model.gguf", "", 0.05},
                      Golden{"gguf_q4_1", "model.gguf", "", 0.05}, Golden{"gguf_q5_0", "model.gguf", "", 0.05},
                      Golden{"gguf_q5_1", "model.gguf", "", 0.05}, Golden{"gguf_k_quants", "model.gguf", "", 0.05},
                      Golden{"gguf_low_bits", "model.gguf", "", 0.05},
                      Golden{"gguf_codebooks", "model.gguf", "", 0.05}),
    GoldenName);

}  // namespace
}  // namespace ringside
