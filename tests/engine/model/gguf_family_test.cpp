// GGUF files of model families: what keys mean that only some of them have, values that are refused by name, and
// damaged files.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "engine/families/network_plan.h"
#include "tests/engine/files/gguf_file_writer.h"
#include "tests/engine/model/family_names.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

/// One value, or one of each layer. Later ones replace earlier ones.
using GgufLists = std::vector<std::pair<std::string_view, std::vector<int32_t>>>;

const GgufLists kAnyModel = {
    {"block_count", {4}},           {"context_length", {256}},        {"embedding_length", {32}},
    {"feed_forward_length", {48}},  {"attention.head_count", {4}},    {"attention.head_count_kv", {2}},
    {"attention.key_length", {16}}, {"attention.value_length", {16}}, {"rope.dimension_count", {16}}};

GgufLists With(const GgufLists& more, const GgufLists& keys) {
  GgufLists all = keys;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Result<NetworkPlan> PlanWith(const std::string& architecture, const GgufLists& changed) {
  std::map<std::string_view, std::vector<int32_t>> keys;
  for (const auto& [key, values] : With(changed, kAnyModel)) keys[key] = values;
  GgufFileWriter writer;
  writer.String("general.architecture", architecture);
  writer.F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f);
  for (const auto& [key, values] : keys) {
    const std::string name = fmt::format("{}.{}", architecture, key);
    if (values.size() == 1) {
      writer.U32(name, static_cast<uint32_t>(values.front()));
    } else {
      writer.I32s(name, values);
    }
  }
  writer.Ones("token_embd.weight", {32, 96});
  const std::string path = ::testing::TempDir() + "family_" + std::to_string(::getpid()) + ".gguf";
  std::ofstream(path, std::ios::binary) << writer.Finish();
  auto file = GgufFile::Open(path);
  std::filesystem::remove(path);
  RETURN_IF_ERROR(file.status());
  return PlanGguf(*file, path);
}

const GgufLists kExperts = {{"expert_count", {4}}, {"expert_used_count", {1}}, {"expert_feed_forward_length", {16}}};

const GgufLists kMamba = {{"ssm.conv_kernel", {4}}, {"ssm.state_size", {8}},
                          {"ssm.group_count", {1}}, {"ssm.time_step_rank", {4}},
                          {"ssm.inner_size", {64}}, {"attention.head_count_kv", {0, 2, 0, 0}}};

// The last of four layers sees everything and is not rotated; every second has experts.
TEST(GgufFamilies, Llama4HasTheChunksOfThePublishedModels) {
  const auto plan =
      PlanWith("llama4", With(kExperts, {{"interleave_moe_layer_step", {2}}, {"context_length", {16384}}}));
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const ModelSpec& spec = plan->spec;
  EXPECT_TRUE(spec.Layer(0).chunked && spec.Layer(0).window == 8192 && spec.Layer(0).plain_scores);
  EXPECT_TRUE(!spec.Layer(3).chunked && spec.Layer(3).rotation == -1 && spec.Layer(3).window == 0);
  EXPECT_TRUE(!spec.IsMixture(0) && spec.IsMixture(1) && spec.IsMixture(3));
  EXPECT_FLOAT_EQ(spec.ScoreScaleAt(8191), 1 + 0.1f * std::log(2.0f));
  const auto largest = PlanWith("llama4", With({{"expert_count", {128}}}, kExperts));
  ASSERT_TRUE(largest.ok()) << largest.status().ToString();
  EXPECT_EQ(largest->spec.qk_norm, QkNorm::kNone) << "only the model with 128 experts has no norms";
}

TEST(GgufFamilies, LayersOfNemotronFollowFromTheirWidths) {
  const auto plan = PlanWith("nemotron_h", With({{"feed_forward_length", {0, 0, 48, 0}}}, kMamba));
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const ModelSpec& spec = plan->spec;
  EXPECT_EQ(spec.Layer(0).mixer, Mixer::kMamba2);
  EXPECT_TRUE(spec.IsAttention(1) && !spec.Layer(1).has_mlp);
  EXPECT_TRUE(spec.Layer(2).mixer == Mixer::kNone && spec.DenseColumns(2) == 48);
}

// By a list, or by a period whose last layer sees everything.
TEST(GgufFamilies, WindowsFollowThePattern) {
  const GgufLists windows = {{"attention.sliding_window", {12}}};
  const auto rotated = [](const Result<NetworkPlan>& plan) {
    std::vector<int> layers;
    for (int64_t layer = 0; layer < 4; ++layer) layers.push_back(plan->spec.Layer(layer).rotation + 1);
    return layers;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(rotated(PlanWith("exaone4", windows)), ElementsAre(1, 1, 1, 0));
  constexpr std::string_view key = "attention.sliding_window_pattern";
  EXPECT_THAT(rotated(PlanWith("exaone4", With({{key, {2}}}, windows))), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(rotated(PlanWith("exaone4", With({{key, {0, 1, 1, 0}}}, windows))), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(rotated(PlanWith("exaone4", {})), ElementsAre(1, 1, 1, 1)) << "no layer has a window";
  EXPECT_THAT(rotated(PlanWith("olmo2", windows)), ElementsAre(2, 2, 2, 1))
      << "full layers have a rotation of their own";
  EXPECT_THAT(rotated(PlanWith("olmo2", With({{key, {0, 1, 1, 0}}}, windows))), ElementsAre(1, 2, 2, 1));
  EXPECT_THAT(rotated(PlanWith("olmo2", {})), ElementsAre(1, 1, 1, 1)) << "OLMo 2";
}

TEST(GgufFamilies, ImpossibleValuesAreRefusedByName) {
  const std::tuple<const char*, GgufLists, const char*> hostile[] = {
      {"llama4", With({{"interleave_moe_layer_step", {0}}}, kExperts), "'llama4.interleave_moe_layer_step' 0"},
      {"afmoe", With({{"expert_gating_func", {3}}}, kExperts), "'afmoe.expert_gating_func' 3 is not supported"},
      {"glm4moe", With({{"expert_shared_count", {65}}}, kExperts), "65 shared experts"},
      {"glm4moe", With({{"expert_group_count", {3}}}, kExperts), "4 experts are not a multiple of its 3 groups"},
      {"exaone4",
       {{"attention.sliding_window", {12}}, {"attention.sliding_window_pattern", {0}}},
       "must be at least 1"},
      {"exaone4",
       {{"attention.sliding_window", {12}}, {"attention.sliding_window_pattern", {1, 0}}},
       "has 2 values for 4 layers"},
      {"laguna", {{"attention.head_count", {4, 4}}}, "has less than 4 integers"},
      {"laguna", {{"attention.head_count", {4, 3, 4, 4}}}, "layer 1 has 2 key and value heads of 16 dimensions for 3"},
      {"laguna",
       {{"attention.sliding_window", {12}}, {"rope.dimension_count_swa", {18}}},
       "number of rotated dimensions is 18"},
      {"laguna", {{"rope.dimension_count", {0}}}, "number of rotated dimensions is 0"},
      {"gemma3n", {{"altup.active_idx", {1}}}, "'gemma3n.altup.active_idx' 1 is not supported"},
      {"gemma3n", {{"altup.num_inputs", {1}}}, "number of streams is 1"},
      {"gemma3n", {{"activation_sparsity_scale", {1, 2}}}, "has 2 values for 4 layers"},
      {"kimi-linear", {{"attention.kv_lora_rank", {32}}, {"ssm.conv_kernel", {4}}}, "kda.head_dim' is missing"},
      {"phimoe", With({{"expert_used_count", {4}}}, kExperts), "4 experts used are not supported"},
      {"ernie4_5-moe", With({{"interleave_moe_layer_step", {2}}}, kExperts), "step' 2 is not supported"},
      {"nemotron_h", With({{"feed_forward_length", {0, 48}}}, kMamba), "has less than 4 integers"},
      {"granitehybrid", With({{"ssm.inner_size", {65}}}, kMamba), "65 recurrent values are not a multiple"},
      {"mistral3", {{"attention.temperature_scale", {1}}}, "context of the scale of scores by position is 0"},
      {"jamba", {}, "it has Mamba-1 layers"},
      {"glm-dsa", {}, "whose keys an indexer chooses (DSA)"},
      {"deepseek2", {{"attention.indexer.head_count", {4}}}, "'deepseek2.attention.indexer.head_count' is 4"},
      {"qwen3", {{"expert_weights_scale", {2}}}, "'qwen3.expert_weights_scale' is 2, which is not supported"},
  };
  for (const auto& [architecture, keys, message] : hostile) {
    const auto refused = PlanWith(architecture, keys);
    ASSERT_FALSE(refused.ok()) << message;
    EXPECT_NE(refused.status().message().find(message), std::string::npos) << refused.status().ToString();
  }
}

// A file that still loads must also run.
TEST(GgufFamilies, FlippedBitsAreHarmless) {
  const auto backend = MakeTestBackend();
  const std::string path = ::testing::TempDir() + "flipped_" + std::to_string(::getpid()) + ".gguf";
  std::vector<std::string> families(std::begin(kFamilies), std::end(kFamilies));
  families.insert(families.end(), std::begin(kGgufFamilies), std::end(kGgufFamilies));
  int loaded = 0;
  for (const std::string& family : families) {
    std::ifstream file(FamilyFolder(family) + "/model.gguf", std::ios::binary);
    if (!file) continue;
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const size_t described = std::min<size_t>(bytes.size(), 4096);  // mostly keys and tensor entries
    for (size_t bit = 0; bit < described * 8; bit += 509) {
      std::string damaged = bytes;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
      auto model = Model::Load(path, *backend);
      if (!model.ok()) continue;
      ++loaded;
      OwnCache cache(**model, {1, 4, Eviction::kToken}, 3);
      RunAll(**model, cache.get(), ScatteredIds(7, (*model)->spec().vocab), 3);
    }
  }
  EXPECT_GT(loaded, 0) << "some bits have no meaning";
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ringside
