// What config.json files mean: traits of a family, the text networks of wrappers, and values that are refused.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>

#include "engine/families/network_plan.h"
#include "tests/engine/model/family_names.h"

namespace ringside {
namespace {

/// The spec of a golden model's config.json in which `from` is replaced by `to`.
Result<ModelSpec> SpecWith(const std::string& folder, const std::string& from, const std::string& to) {
  std::ifstream file(GoldenFolder(folder) + "/config.json");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << folder;
  text.replace(at, from.size(), to);
  ASSIGN_OR_RETURN(const FlatJson json, FlatJson::Parse(text, "config.json"));
  ASSIGN_OR_RETURN(const NetworkPlan plan, PlanHuggingFace(json, {}, folder));
  return plan.spec;
}

TEST(FamilyConfig, TiesTheHeadIfConfigured) {
  for (const char* name : {"families/bloom", "families/mpt", "families/falcon", "families/gemma", "families/opt"}) {
    for (const char* tied : {"true", "false"}) {
      const std::string to = std::string("\"tie_word_embeddings\": ") + tied;
      const Result<ModelSpec> spec = SpecWith(name, "\"tie_word_embeddings\": true", to);
      ASSERT_TRUE(spec.ok()) << name << spec.status().ToString();
      EXPECT_EQ(spec->tied_head, std::string(tied) == "true") << name;
    }
  }
}

// Independently of "tie_word_embeddings" in a file that has a head.
TEST(FamilyConfig, Mt5LogitsAreNotScaled) {
  for (const char* tied : {"true", "false"}) {
    const std::string to = std::string("\"tie_word_embeddings\": ") + tied;
    EXPECT_EQ(SpecWith("encoders/mt5", "\"tie_word_embeddings\": true", to)->logit_scale, 1) << tied;
  }
  EXPECT_NE(SpecWith("encoders/t5", "relu", "relu")->logit_scale, 1);
  EXPECT_EQ(SpecWith("encoders/t5", "\"tie_word_embeddings\": true",
                     "\"tie_word_embeddings\": true, \"scale_decoder_outputs\": false")
                ->logit_scale,
            1);
}

TEST(FamilyConfig, SomeFamiliesUsePartialRotation) {
  const std::string plain = "\"rope_type\": \"default\"", part = plain + ", \"partial_rotary_factor\": 0.5";
  for (const char* name : {"llama", "qwen3", "families/mixtral", "families/falcon"}) {
    const Result<ModelSpec> spec = SpecWith(name, plain, part);
    ASSERT_TRUE(spec.ok()) << name << spec.status().ToString();
    EXPECT_EQ(spec->rotary, spec->head_dim) << name;
    const Result<ModelSpec> scaled =
        SpecWith(name, plain, "\"rope_type\": \"linear\", \"factor\": 2.0, \"partial_rotary_factor\": 0.5");
    EXPECT_EQ(scaled.status().code(), StatusCode::kInvalidArgument) << name;
  }
  const Result<ModelSpec> phi = SpecWith("families/phi", plain, plain);
  ASSERT_TRUE(phi.ok());
  EXPECT_EQ(phi->rotary, phi->head_dim / 2);
}

Result<NetworkPlan> PlanOf(const std::string& config) {
  ASSIGN_OR_RETURN(const FlatJson json, FlatJson::Parse(config, "config.json"));
  return PlanHuggingFace(json, {}, "model");
}

TEST(FamilyWrappers, ReadTheTextNetwork) {
  // The first Qwen2-VL files have the text network's keys at the top.
  const auto flat = PlanOf(R"({"model_type": "qwen2_vl", "hidden_size": 32, "intermediate_size": 48,
      "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 96, "max_position_embeddings": 256,
      "rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]}, "vision_config": {"depth": 1}})");
  ASSERT_TRUE(flat.ok()) << flat.status().ToString();
  EXPECT_EQ(flat->spec.architecture, "qwen2");
  EXPECT_TRUE(flat->spec.qkv_bias);
  EXPECT_EQ(flat->spec.rotations.front().inverse_frequencies.front(), 1);
  // Published Gemma 3 files leave out what equals the smallest model's.
  const auto gemma = PlanOf(R"({"model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
      "model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024,
      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}, "vision_config": {"hidden_size": 1152}})");
  ASSERT_TRUE(gemma.ok()) << gemma.status().ToString();
  const ModelSpec& spec = gemma->spec;
  EXPECT_EQ((std::array{spec.heads, spec.kv_heads, spec.head_dim, spec.vocab, spec.trained_context}),
            (std::array<int64_t, 5>{8, 4, 256, 262208, 131072}));
  ASSERT_EQ(spec.rotations.size(), 2U);
  const auto second = [&](size_t rotation) { return spec.rotations[rotation].inverse_frequencies[1]; };
  EXPECT_DOUBLE_EQ(second(0), std::pow(1e6, -2.0 / 256) / 8);
  EXPECT_DOUBLE_EQ(second(1), std::pow(1e4, -2.0 / 256));
  EXPECT_EQ(spec.Layer(5).window, 0);
  EXPECT_EQ(spec.Layer(4).window, 1024);
  EXPECT_TRUE(spec.tied_head);
}

TEST(FamilyWrappers, RefuseAnUnknownTextNetworkByName) {
  for (const auto& [config, name] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"model_type": "mistral3", "text_config": {"model_type": "mistral4"}})", "mistral4"},
           {R"({"model_type": "paligemma", "text_config": {"model_type": "gemma"}})", "paligemma"}}) {
    const auto refused = PlanOf(config);
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(refused.status().message().starts_with("architecture '" + std::string(name) + "' is not supported"))
        << refused.status().ToString();
  }
}

}  // namespace
}  // namespace ringside
