// GGUF files of networks with recurrent layers: what their keys mean, and values that are refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "engine/families/network_plan.h"
#include "tests/engine/files/gguf_file_writer.h"

namespace ringside {
namespace {

using GgufValues = std::map<std::string, uint32_t>;

const GgufValues kQwen35 = {
    {"block_count", 8},           {"context_length", 256},        {"embedding_length", 32},
    {"feed_forward_length", 48},  {"attention.head_count", 4},    {"attention.head_count_kv", 2},
    {"attention.key_length", 16}, {"attention.value_length", 16}, {"rope.dimension_count", 4},
    {"ssm.conv_kernel", 4},       {"ssm.state_size", 8},          {"ssm.group_count", 2},
    {"ssm.time_step_rank", 4},    {"ssm.inner_size", 64}};

/// The plan of a file of this architecture with `keys`, and a value for some others.
Result<NetworkPlan> PlanGgufOf(const std::string& architecture, GgufValues keys, const GgufValues& changed) {
  for (const auto& [key, value] : changed) keys[key] = value;
  GgufFileWriter writer;
  writer.String("general.architecture", architecture);
  writer.F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f);
  for (const auto& [key, value] : keys) writer.U32(architecture + "." + key, value);
  writer.Ones("token_embd.weight", {32, 96});
  const std::string path = ::testing::TempDir() + "hybrid_" + std::to_string(::getpid()) + ".gguf";
  std::ofstream(path, std::ios::binary) << writer.Finish();
  auto file = GgufFile::Open(path);
  std::filesystem::remove(path);
  RETURN_IF_ERROR(file.status());
  return PlanGguf(*file, path);
}

TEST(GgufHybrid, ReadsLayersAndSizes) {
  const auto plan = PlanGgufOf("qwen35", kQwen35, {});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const ModelSpec& spec = plan->spec;
  EXPECT_EQ(spec.attention_layers(), 2) << "every fourth, unless the file has another interval";
  EXPECT_TRUE(spec.IsAttention(3) && spec.IsAttention(7));
  EXPECT_EQ(spec.recurrence.value_size, 16);
  EXPECT_TRUE(spec.recurrence.alternates && spec.stored_rates && spec.query_gate);
  EXPECT_EQ(PlanGgufOf("qwen35", kQwen35, {{"full_attention_interval", 2}})->spec.attention_layers(), 4);
}

// The draft layer is counted as the last block.
TEST(GgufHybrid, DraftLayersAreSkipped) {
  const auto plan = PlanGgufOf("qwen35", kQwen35, {{"block_count", 9}, {"nextn_predict_layers", 1}});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->spec.layers, 8);
  EXPECT_THAT(plan->skipped, ::testing::Contains("blk.8."));
}

TEST(GgufHybrid, ImpossibleSizesAreRefusedByName) {
  const std::tuple<const char*, uint32_t, const char*> hostile[] = {
      {"full_attention_interval", 0, "full_attention_interval' is 0"},
      {"full_attention_interval", 100, "no layer with attention"},
      {"ssm.conv_kernel", 4000000000, "convolution's size is 4000000000"},
      {"ssm.state_size", 0, "recurrent key size is 0"},
      {"ssm.group_count", 3, "4 recurrent value heads are not a multiple of its 3 key heads"},
      {"ssm.time_step_rank", 0, "64 recurrent values are not a multiple of its 0 heads"},
      {"ssm.inner_size", 65, "65 recurrent values are not a multiple of its 4 heads"},
      {"ssm.inner_size", 96, "recurrent value size is 24, which is not a multiple of 16"},
      {"nextn_predict_layers", 9, "number of layers is -1"}};
  for (const auto& [key, value, message] : hostile) {
    const auto refused = PlanGgufOf("qwen35", kQwen35, {{key, value}});
    ASSERT_FALSE(refused.ok()) << key;
    EXPECT_NE(refused.status().message().find(message), std::string::npos) << refused.status().ToString();
  }
  GgufValues without = kQwen35;
  without.erase("ssm.inner_size");
  EXPECT_NE(PlanGgufOf("qwen35", without, {}).status().message().find("ssm.inner_size' is missing"), std::string::npos);
}

}  // namespace
}  // namespace ringside
