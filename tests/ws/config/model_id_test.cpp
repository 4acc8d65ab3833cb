#include "ws/config/model_id.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

TEST(ModelId, IsAShortFormOfTheFileName) {
  const std::string prose = "Smollm2 135M 8k Lc100K Mix1 Ep2";
  EXPECT_EQ(ModelId("/root/models/SmolLM2-135M-Instruct.Q4_1.gguf", prose), "smollm2-135m-instruct");
  EXPECT_EQ(ModelId("Llama-3.2-1B-Instruct-Q4_K_M.gguf", prose), "llama-3.2-1b-instruct");
  EXPECT_EQ(ModelId("qwen2.5-7b-instruct-q5_k_m-00001-of-00002.gguf", prose), "qwen2.5-7b-instruct");
  EXPECT_EQ(ModelId("mistral-7b-v0.3.bf16.gguf", prose), "mistral-7b-v0.3");
  EXPECT_EQ(ModelId("my model (new).gguf", prose), "my-model-new");
  EXPECT_EQ(ModelId("q8.gguf", prose), "q8") << "a name is not taken for a number format";
}

TEST(ModelId, OfAFolder) {
  EXPECT_EQ(ModelId("/models/Qwen2.5-7B-Instruct/", "Qwen2.5-7B-Instruct"), "qwen2.5-7b-instruct");
  const std::string cached =
      "/c/models--HuggingFaceTB--SmolLM2-135M-Instruct/snapshots/12fd25f77366fa6b3b4b768ec3050bf629";
  EXPECT_EQ(ModelId(cached, "12fd25f77366fa6b3b4b768ec3050bf629"), "smollm2-135m-instruct");
}

TEST(ModelId, FallsBackToTheModelsName) {
  EXPECT_EQ(ModelId("/blobs/sha256-0123456789abcdef", "Tiny Llama"), "tiny-llama");
  EXPECT_EQ(ModelId("model.gguf", "Tiny Llama"), "tiny-llama");
  EXPECT_EQ(ModelId("ggml-model-q4_0.gguf", "Tiny Llama"), "tiny-llama");
  EXPECT_EQ(ModelId("model.gguf", ""), "ringside");
  EXPECT_EQ(ModelId("模型.gguf", "模型"), "ringside");
}

}  // namespace
}  // namespace ringside
