// What config.json files mean: traits of a family, the text networks of wrappers, and values that are refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>

#include "engine/families/network_plan.h"
#include "kernels/state_shape.h"
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
           {R"({"model_type": "mistral3", "text_config": {"model_type": "mistral_large4"}})", "mistral_large4"},
           {R"({"model_type": "paligemma", "text_config": {"model_type": "gemma"}})", "paligemma"}}) {
    const auto refused = PlanOf(config);
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(refused.status().message().starts_with("architecture '" + std::string(name) + "' is not supported"))
        << refused.status().ToString();
  }
}

// Known architectures are refused by the trait that is missing, before weights are looked for.
TEST(FamilyConfig, MissingTraitsAreNamed) {
  for (const auto& [type, trait] : std::initializer_list<std::pair<const char*, const char*>>{
           {"jamba", "Mamba-1 layers"},
           {"deepseek_v32", "sparse attention, whose keys an indexer chooses (DSA)"},
           {"glm_moe_dsa", "sparse attention, whose keys an indexer chooses (DSA)"},
           {"deepseek_v4", "compressed attention (CSA, HCA) and hyper-connections"},
           {"qwen4_exp_text", "hyper-connections"},
           {"mimo_v2_flash", "keys and values of different sizes"},
           {"step3p5", "limits of activations that differ between layers"}}) {
    const auto refused = PlanOf(fmt::format(R"({{"model_type": "{}"}})", type));
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
    const std::string message = fmt::format("architecture '{}' is not supported: it has ", type);
    EXPECT_TRUE(refused.status().message().starts_with(message)) << refused.status().ToString();
    EXPECT_NE(refused.status().message().find(trait), std::string::npos) << refused.status().ToString();
  }
}

// The sentence ends in a model that loads: one of the same maker or kind.
TEST(FamilyConfig, RefusalsNameTheNearestModelThatLoads) {
  for (const auto& [type, nearest] : std::initializer_list<std::pair<const char*, const char*>>{
           {"deepseek_v4", "; the nearest model that loads is DeepSeek-V3.1"},
           {"qwen4_exp_text", "; the nearest model that loads is Qwen3.6-35B-A3B"},
           {"mamba2", "; the nearest model that loads is Nemotron-H"},
           {"gemma5_text", " (the nearest that is: 'gemma4_text'); these are: "},
           {"qwen9_moe", " (the nearest that is: 'qwen3_moe'); these are: "},
           {"zebra", " is not supported; these are: "}}) {
    const auto refused = PlanOf(fmt::format(R"({{"model_type": "{}"}})", type));
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(refused.status().message().find(nearest), std::string::npos) << refused.status().ToString();
  }
}

TEST(FamilyConfig, DraftLayersAreSkipped) {
  std::ifstream file(FamilyFolder("glm4_moe") + "/config.json");
  const auto plan = PlanOf(std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()));
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_THAT(plan->skipped, ::testing::Contains("model.layers.3."));
}

// The last three layers read the keys of layers 2 and 1; the cache has three layers of two sizes.
TEST(FamilyConfig, LayersShareKeysOfTheirKind) {
  const Result<ModelSpec> spec = SpecWith("families/gemma4", "sliding_window", "sliding_window");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->Layer(3).keys_of, 2);
  EXPECT_EQ(spec->Layer(5).keys_of, 1);
  EXPECT_EQ(spec->KvIndex(5), 1);
  EXPECT_EQ(spec->attention_layers(), 3);
  EXPECT_EQ(spec->varied_layers(), (std::vector<KvLayer>{{2, 16}, {2, 32}, {2, 16}}));
  EXPECT_EQ(spec->DenseColumns(2), 32);
  EXPECT_EQ(spec->DenseColumns(3), 64);
  EXPECT_EQ(spec->rotations[0].inverse_frequencies.size(), 16U);
  EXPECT_NE(spec->rotations[0].inverse_frequencies[3], 0);  // a quarter of the pairs is rotated
  EXPECT_EQ(spec->rotations[0].inverse_frequencies[4], 0);
}

// No config.json has such layers, but a reader might make them.
TEST(FamilyConfig, SharedKeysMustComeFromAnEarlierLayerOfTheSameSize) {
  const Result<ModelSpec> sound = SpecWith("families/gemma4", "sliding_window", "sliding_window");
  ASSERT_TRUE(sound.ok() && ValidateSpec(*sound).ok());
  for (const int64_t source : {3, 4, 1, 5, 6, -2}) {  // itself; a sharing layer; another size; later; none
    ModelSpec spec = *sound;
    spec.layer_traits[source == 4 ? 5 : 3].keys_of = source;
    const Status refused = ValidateSpec(spec);
    EXPECT_NE(refused.message().find("cannot read the keys and values of layer"), std::string::npos) << source;
  }
}

// A cached key is the latent and one rotated key, whatever a file's head sizes are. Scores are scaled as those of
// expanded keys, with YaRN's magnitude squared.
TEST(FamilyConfig, LatentKeysHaveOneHead) {
  const Result<ModelSpec> spec =
      SpecWith("families/deepseek_v3", "\"model_type\": \"deepseek_v3\"", "\"model_type\": \"kimi_k2\"");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->kv_heads, 1);
  EXPECT_EQ(spec->head_dim, 32 + 8);
  EXPECT_EQ(spec->qkv_columns(), 5 * 40);
  EXPECT_EQ(spec->latent.query_rank, 20);
  const double magnitude = 0.1 * std::log(16.0) + 1;
  EXPECT_FLOAT_EQ(spec->query_scale, static_cast<float>(magnitude * magnitude / std::sqrt(20.0)));
  EXPECT_EQ(spec->rotations.front().magnitude, 1);
}

// Positions beyond the trained context count as its last one.
TEST(FamilyConfig, ScoresScaleWithThePosition) {
  const Result<ModelSpec> spec = SpecWith("families/ministral3", "0.3", "0.3");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->ScoreScaleAt(15), 1);
  EXPECT_FLOAT_EQ(spec->ScoreScaleAt(16), static_cast<float>(1 + 0.3 * std::log(2.0)));
  EXPECT_EQ(spec->ScoreScaleAt(1 << 20), spec->ScoreScaleAt(255));
}

TEST(FamilyConfig, LayersHaveTheirMixers) {
  const Result<ModelSpec> spec = SpecWith("families/qwen3_5_text", "0.25", "0.25");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->attention_layers(), 1);
  EXPECT_EQ(spec->rotary, 4);
  const StateShape state = spec->state();
  EXPECT_EQ(state.layers, 2);
  EXPECT_EQ(state.boundary_bytes, 4 * (4 * 8 * 16 + 3 * 96));
  EXPECT_EQ(state.tail_row_bytes, 4 * (96 + 16 + 64 + 16)) << "four decays, rounded up to a multiple of 16 values";
  // Without a list, every fourth layer has attention.
  const auto plan = PlanOf(R"({"model_type": "qwen3_5_text", "hidden_size": 32, "intermediate_size": 48,
      "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 96,
      "max_position_embeddings": 256})");
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->spec.attention_layers(), 2);
  EXPECT_TRUE(plan->spec.IsAttention(3) && plan->spec.IsAttention(7));
  EXPECT_EQ(plan->spec.recurrence.value_heads, 32);
}

// As published: attention without positions, and default sizes.
TEST(FamilyConfig, OlmoHybridDefaults) {
  const auto plan = PlanOf(R"({"model_type": "olmo_hybrid", "hidden_size": 3840, "intermediate_size": 11008,
      "num_hidden_layers": 8, "num_attention_heads": 30, "vocab_size": 96, "max_position_embeddings": 256,
      "rope_parameters": {"rope_theta": null, "rope_type": "default"}})");
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const ModelSpec& spec = plan->spec;
  EXPECT_EQ(spec.rope_pairs, RopePairs::kNone);
  EXPECT_EQ(spec.recurrence.key_size, 96);
  EXPECT_EQ(spec.recurrence.value_size, 192);
  EXPECT_EQ(spec.recurrence.largest_beta, 2);
  EXPECT_EQ(spec.attention_layers(), 2);
}

// As published: layers as letters, and an infinity, which JSON lacks.
TEST(FamilyConfig, NemotronLayersAreLetters) {
  const auto plan = PlanOf(R"({"model_type": "nemotron_h", "hidden_size": 32, "intermediate_size": 48,
      "num_hidden_layers": 5, "hybrid_override_pattern": "ME*-M", "num_attention_heads": 4, "num_key_value_heads": 2,
      "head_dim": 16, "vocab_size": 96, "max_position_embeddings": 256, "n_routed_experts": 4,
      "num_experts_per_tok": 2, "moe_intermediate_size": 24, "moe_shared_expert_intermediate_size": 40,
      "time_step_limit": [0.0, Infinity]})");
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const ModelSpec& spec = plan->spec;
  EXPECT_EQ(spec.attention_layers(), 1);
  EXPECT_EQ(spec.state().layers, 2);
  EXPECT_TRUE(spec.IsMixture(1) && spec.IsAttention(2) && !spec.Layer(4).has_mlp);
  EXPECT_EQ(spec.DenseColumns(3), 48);
  EXPECT_EQ(spec.recurrence.value_heads, 128);
}

struct Hostile {
  const char *family, *from, *to, *message;
};
constexpr Hostile kHostile[] = {
    {"glm4_moe", R"("num_hidden_layers": 3)", R"("num_hidden_layers": -3)", "number of layers is -3"},
    {"glm4_moe", R"("n_group": 4)", R"("n_group": 3)", "8 experts are not a multiple of its 3 groups"},
    {"glm4_moe", R"("n_group": 4)", R"("n_group": 0)", "number of expert groups is 0"},
    {"glm4_moe", R"("topk_group": 2)", R"("topk_group": 5)", "number of expert groups used is 5"},
    {"glm4_moe", R"("topk_group": 2)", R"("topk_group": 1)", "number of experts used is 3, not in 1 .. 2"},
    {"glm4_moe", R"("num_experts_per_tok": 3)", R"("num_experts_per_tok": 9)", "number of experts used is 9"},
    {"glm4_moe", R"("first_k_dense_replace": 1)", R"("first_k_dense_replace": -1)", "'first_k_dense_replace' is -1"},
    {"glm4_moe", R"("n_shared_experts": 2)", R"("n_shared_experts": -2)", "-2 shared experts"},
    {"glm4_moe", R"("routed_scaling_factor": 2.5)", R"("routed_scaling_factor": -1)", "scale of expert weights is -1"},
    {"glm4_moe", R"("moe_intermediate_size": 12)", R"("moe_intermediate_size": 4611686018427387904)", "of width"},
    {"glm4_moe", R"("intermediate_size": 48)", R"("intermediate_size": 0)", "'intermediate_size' of dense layers is 0"},
    {"deepseek_v3", R"("kv_lora_rank": 32)", R"("kv_lora_rank": -32)",
     "latent attention with a part of -32 dimensions"},
    {"deepseek_v3", R"("kv_lora_rank": 32)", R"("kv_lora_rank": null)", "'kv_lora_rank' is missing"},
    {"deepseek_v3", R"("kv_lora_rank": 32)", R"("kv_lora_rank": 24)", "24 outputs per head, which is not a multiple"},
    {"deepseek_v3", R"("kv_lora_rank": 32)", R"("kv_lora_rank": 1024)", "head size is 1032, not in 1 .. 576"},
    {"deepseek_v3", R"("kv_lora_rank": 32)", R"("kv_lora_rank": 576)", "head size is 584, not in 1 .. 576"},
    {"deepseek_v3", R"("v_head_dim": 16)", R"("v_head_dim": 12)", "12 outputs per head, which is not a multiple"},
    {"deepseek_v3", R"("qk_rope_head_dim": 8)", R"("qk_rope_head_dim": 0)", "latent attention with a part of 0"},
    {"deepseek_v3", R"("qk_rope_head_dim": 8)", R"("qk_rope_head_dim": 7)", "an odd number"},
    {"deepseek_v3", R"("qk_nope_head_dim": 12)", R"("qk_nope_head_dim": 4611686018427387904)", "with a part of 46116"},
    {"deepseek_v3", R"("q_lora_rank": 20)", R"("q_lora_rank": -20)", "rank of queries is -20"},
    {"deepseek_v3", R"("attention_bias": false)", R"("attention_bias": true)", "'attention_bias' = true is not"},
    {"deepseek_v3", R"("first_k_dense_replace": 1)", R"("first_k_dense_replace": 1, "moe_layer_freq": 2)",
     "'moe_layer_freq' is 2"},
    {"deepseek_v3", R"("first_k_dense_replace": 1)", R"("first_k_dense_replace": -1)", "'first_k_dense_replace' is -1"},
    {"deepseek_v3", R"("first_k_dense_replace": 1)", R"("first_k_dense_replace": 1, "scoring_func": "softmax")",
     "'scoring_func' 'softmax' is not supported"},
    {"deepseek_v2", R"("topk_method": "group_limited_greedy")", R"("topk_method": "noaux_tc")",
     "'topk_method' 'noaux_tc' is not supported"},
    {"gemma3n_text", R"("altup_num_inputs": 3)", R"("altup_num_inputs": 0)", "'altup_num_inputs' is 0"},
    {"gemma3n_text", R"("altup_num_inputs": 3)", R"("altup_num_inputs": 1)", "number of streams is 1, not in 2 .. 16"},
    {"gemma3n_text", R"("altup_num_inputs": 3)", R"("altup_num_inputs": 1000000)", "number of streams is 1000000"},
    {"gemma3n_text", R"("altup_active_idx": 0)", R"("altup_active_idx": 1)", "'altup_active_idx' 1 is not supported"},
    {"gemma3n_text", R"("laurel_rank": 6)", R"("laurel_rank": 0)", "rank of the map added to attention is 0"},
    {"gemma3n_text", R"("activation_sparsity_pattern": [)", R"("activation_sparsity_pattern": [1.0, )",
     "'activation_sparsity_pattern' of layer 0 is 1"},
    {"gemma3n_text", R"("intermediate_size": [)", R"("intermediate_size": [-1, )", "feed-forward size is -1"},
    {"gemma3n_text", R"("num_kv_shared_layers": 2)", R"("num_kv_shared_layers": 4)",
     "'num_kv_shared_layers' is 4 of 4 layers"},
    {"llama4_text", R"("attention_chunk_size": 12)", R"("attention_chunk_size": -12)", "with chunks of -12"},
    {"llama4_text", R"("no_rope_layer_interval": 4)", R"("no_rope_layer_interval": 0)",
     "'no_rope_layer_interval' is 0"},
    {"llama4_text", R"("moe_layers": [)", R"("moe_layers": [9, )", "'moe_layers' has layer 9 of 4"},
    {"llama4_text", R"("intermediate_size_mlp": 32)", R"("intermediate_size_mlp": 0)", "'intermediate_size_mlp' 0"},
    {"llama4_text", R"("floor_scale": 8)", R"("floor_scale": 0)", "context of the scale of scores by position is 0"},
    {"afmoe", R"("num_dense_layers": 1)", R"("num_dense_layers": -1)", "'num_dense_layers' is -1"},
    {"afmoe", R"("attention_bias": false)", R"("attention_bias": true)", "'attention_bias' = true is not supported"},
    {"laguna", R"("partial_rotary_factor": 0.5)", R"("partial_rotary_factor": 0)", "'partial_rotary_factor' is 0"},
    {"laguna", R"("num_attention_heads_per_layer": [)", R"("num_attention_heads_per_layer": [-4, )",
     "number of heads of a layer is -4"},
    {"laguna", R"("num_attention_heads_per_layer": [)", R"("num_attention_heads_per_layer": [3, )",
     "layer 0 has 2 key and value heads of 16 dimensions for 3 heads"},
    {"phimoe", R"("num_experts_per_tok": 2)", R"("num_experts_per_tok": 3)",
     "'num_experts_per_tok' 3 is not supported"},
    {"phimoe", R"("router_jitter_noise": 0.2)", R"("router_jitter_noise": -1)", "router's margin is -2"},
    {"gemma4", R"("num_kv_shared_layers": 3)", R"("num_kv_shared_layers": 6)", "'num_kv_shared_layers' is 6 of 6"},
    {"gemma4", R"("num_kv_shared_layers": 3)", R"("num_kv_shared_layers": -1)", "'num_kv_shared_layers' is -1"},
    {"gemma4", R"("num_kv_shared_layers": 3)", R"("num_kv_shared_layers": 5)",
     "layer 1 has no earlier layer to share keys with"},
    {"gemma4", R"("head_dim": 32)", R"("head_dim": 34)", "others of its kind"},
    {"gemma4_moe", R"("head_dim": 32)", R"("head_dim": 578)", "head size of a layer is 578, not in 0 .. 576"},
    {"gemma4", R"("head_dim": 16)", R"("head_dim": -16)", "head size is -16"},
    {"gemma4", R"("sliding_window": 12)", R"("sliding_window": 0)", "'sliding_window' is 0"},
    {"gemma4", R"("hidden_size_per_layer_input": 8)", R"("hidden_size_per_layer_input": -8)",
     "width of per-layer inputs is -8"},
    {"gemma4", R"("vocab_size_per_layer_input": 96)", R"("vocab_size_per_layer_input": 0)",
     "vocabulary size of per-layer inputs is 0"},
    {"gemma4", R"("partial_rotary_factor": 0.25)", R"("partial_rotary_factor": -1)", "partial_rotary_factor' is -1"},
    {"gemma4", R"("layer_types": [)", R"("layer_types": ["full_attention", )", "has more than 6 layers"},
    {"gemma4", R"("layer_types": [)", R"("layer_types": [], "unused": [)", "'layer_types' of layer 0 is ''"},
    {"gemma4", R"("use_bidirectional_attention": null)", R"("use_bidirectional_attention": "all")",
     "'use_bidirectional_attention' 'all' is not supported"},
    {"gemma4_moe", R"("num_key_value_heads": 1)", R"("num_key_value_heads": 3)", "layer 2 has 3 key and value heads"},
    {"gemma4_moe", R"("top_k_experts": 2)", R"("top_k_experts": 7)", "number of experts used is 7"},
    {"gemma4_moe", R"("num_experts": 6)", R"("num_experts": -6)", "number of experts is -6"},
    {"minimax_m2", R"("num_hidden_layers": 2)", R"("num_hidden_layers": 1000000000000)", "number of layers is"},
    {"minimax_m2", R"("num_hidden_layers": 2)", R"("num_hidden_layers": 2, "attn_type_list": [1, 0])",
     "linear attention (layer 1) is not supported"},
    {"minimax_m2", R"("num_hidden_layers": 2)", R"("num_hidden_layers": 2, "scoring_func": "softmax")",
     "'scoring_func' 'softmax' is not supported"},
    {"minimax_m2", R"("num_hidden_layers": 2)", R"("num_hidden_layers": 2, "rotary_dim": 18)",
     "number of rotated dimensions is 18"},
    {"ernie4_5_moe", R"("moe_layer_interval": 1)", R"("moe_layer_interval": 0)", "'moe_layer_interval' is 0"},
    {"ernie4_5_moe", R"("moe_k": 2)", R"("moe_k": 7)", "number of experts used is 7"},
    {"ernie4_5_moe", R"("use_bias": false)", R"("use_bias": true)", "'use_bias' = true is not supported"},
    {"ministral3", R"("llama_4_scaling_beta": 0.3)", R"("llama_4_scaling_beta": -0.3)", "scale of scores by position"},
    {"ministral3", R"("original_max_position_embeddings": 16)", R"("original_max_position_embeddings": 0)",
     "context of the scale of scores by position is 0"},
    {"hunyuan_v1_dense", R"("alpha": 1000.0)", R"("alpha": -1000.0)", "rope alpha is -1000"},
    {"hunyuan_v1_dense", R"("alpha": 1000.0)", R"("beta": 1)", "rope scaling 'dynamic' is not supported"},
    {"qwen3_5_text", R"("full_attention",)", R"("full_attention", "linear_attention",)", "more than 3 layers"},
    {"qwen3_5_text", R"("full_attention",)", "", "'layer_types' of layer 2 is ''"},
    {"qwen3_5_text", R"("full_attention",)", R"("sliding_attention",)",
     "is 'sliding_attention', which is not supported"},
    {"qwen3_5_text", R"("full_attention",)", R"("linear_attention",)", "no layer with attention"},
    {"qwen3_5_text", R"("linear_conv_kernel_dim": 4)", R"("linear_conv_kernel_dim": 4096)",
     "convolution's size is 4096"},
    {"qwen3_5_text", R"("linear_conv_kernel_dim": 4)", R"("linear_conv_kernel_dim": 1)", "convolution's size is 1"},
    {"qwen3_5_text", R"("linear_num_key_heads": 2)", R"("linear_num_key_heads": -2)", "recurrent key heads is -2"},
    {"qwen3_5_text", R"("linear_num_key_heads": 2)", R"("linear_num_key_heads": 3)",
     "4 recurrent value heads are not a multiple of its 3 key heads"},
    {"qwen3_5_text", R"("linear_num_value_heads": 4)", R"("linear_num_value_heads": 4611686018427387904)",
     "recurrent value heads is 4611686018427387904"},
    {"qwen3_5_text", R"("linear_key_head_dim": 8)", R"("linear_key_head_dim": 512)", "recurrent key size is 512"},
    {"qwen3_5_text", R"("linear_value_head_dim": 16)", R"("linear_value_head_dim": 24)",
     "recurrent value size is 24, which is not a multiple of 16"},
    {"qwen3_5_text", R"("num_hidden_layers": 3)", R"("num_hidden_layers": -1)", "number of layers is -1"},
    {"qwen3_next", R"("mlp_only_layers": [])", R"("mlp_only_layers": [1])", "layers with and without experts"},
    {"kimi_linear", R"("linear_head_dim": 16)", R"("linear_head_dim": 100000)", "recurrent key size is 100000"},
    {"kimi_linear", R"("linear_num_heads": 2)", R"("linear_num_heads": 0)", "recurrent key heads is 0"},
    {"kimi_linear", R"("linear_head_dim": 16)", R"("linear_attn_config": {"full_attn_layers": [4]})",
     "has layer 4 of 3"},
    {"olmo_hybrid", R"("attention_bias": false)", R"("attention_bias": true)", "'attention_bias' = true"},
    {"olmo_hybrid", R"("linear_key_head_dim": 12)", R"("linear_key_head_dim": -12)", "recurrent key size is -12"},
    {"olmo_hybrid", R"("linear_num_value_heads": 4)", R"("linear_num_value_heads": 5)",
     "5 recurrent value heads are not a multiple of its 2 key heads"},
    {"lfm2", R"("conv_L_cache": 4)", R"("conv_L_cache": 1000000)", "convolution's size is 1000000"},
    {"lfm2", R"("block_multiple_of": 8)", R"("block_multiple_of": 0)", "a multiple of 0"},
    {"lfm2", R"("full_attn_idxs": [
    1
  ])",
     R"("full_attn_idxs": [
    4
  ])",
     "'full_attn_idxs' has layer 4 of 4"},
    {"lfm2_moe", R"("num_dense_layers": 1)", R"("num_dense_layers": -1)", "-1 dense layers"},
    {"granitemoehybrid", R"("mamba_d_head": 16)", R"("mamba_d_head": 0)", "recurrent value size is 0"},
    {"granitemoehybrid", R"("mamba_n_groups": 1)", R"("mamba_n_groups": 3)", "not a multiple of its 3 key heads"},
    {"granitemoehybrid", R"("time_step_limit": [
    0.0,)",
     R"("time_step_limit": [
    0.5,)",
     "'time_step_limit' from 0.5"},
    {"granitemoehybrid", R"("num_local_experts": 4)", R"("num_local_experts": -4)", "number of experts is -4"},
    {"nemotron_h", R"("moe",)", R"("dense",)", "a layer of type 'dense' is not supported"},
    {"nemotron_h", R"("moe",)", R"("moe"], "num_hidden_layers": 7, "x": [)", "types of 2 layers are given"},
    {"nemotron_h", R"("full_attention",)", R"("mlp",)", "no layer with attention"},
    {"nemotron_h", R"("moe_latent_size": null)", R"("moe_latent_size": -16)", "size of experts' inputs is -16"},
    {"nemotron_h", R"("moe_latent_size": null)", R"("moe_latent_size": 4611686018427387904)",
     "experts' inputs is 46116"},
    {"falcon_h1", R"("mamba_d_head": 16)", R"("mamba_d_head": 24)", "recurrent value size is 24"},
    {"falcon_h1", R"("key_multiplier": 0.6)", R"("key_multiplier": -0.6)", "query scale is -"},
    {"falcon_h1", R"("attention_in_multiplier": 0.8)", R"("attention_in_multiplier": -0.8)",
     "attention's input is -0.8"},
    {"falcon_h1", R"("attention_out_multiplier": 1.4)", R"("attention_out_multiplier": 0)",
     "factor of a layer's part is 0"},
    {"falcon_h1", R"("ssm_in_multiplier": 1.3)", R"("ssm_in_multiplier": 0)", "factor of a recurrence's input is 0"},
    {"falcon_h1", R"("attention_bias": false)", R"("attention_bias": true)", "'attention_bias' = true"},
    {"falcon_h1_norm", R"("mamba_norm_before_gate": false)", R"("mamba_norm_before_gate": true)",
     "'mamba_norm_before_gate' is not supported"},
    {"lfm3", R"("sliding_window": 12)", R"("sliding_window": 0)", "'sliding_window' is 0"},
    {"lfm3", R"("conv_L_cache": 5)", R"("conv_L_cache": 50)", "convolution's size is 50"},
    {"hunyuan_v1_moe", R"("moe_topk": 2)", R"("moe_topk": [2, 3])", "'moe_topk' is 2 in layer 0 and 3 in layer 1"},
    {"hunyuan_v1_moe", R"("moe_topk": 2)", R"("moe_topk": [2])", "'moe_topk.1' is missing"},
    {"cohere2_moe", R"("mlp_layer_types": [)", R"("mlp_layer_types": ["dense", )", "of layer 0 is 0"},
    {"cohere2_moe", R"("num_shared_experts": 2)", R"("num_shared_experts": -2)", "-2 shared experts"},
    {"granite_swa", R"("layer_rope_theta": [)", R"("layer_rope_theta": [-1, )", "rope base is -1"},
    {"nemotron_h", R"("intermediate_size": 48)", R"("intermediate_size": -1)",
     "'intermediate_size' -1 is not supported"},
    {"mixtral", R"("hidden_act": "silu")", R"("hidden_act": "xielu")", "the activation xIELU"},
};

TEST(FamilyConfig, ImpossibleTraitsAreRefusedByName) {
  for (const Hostile& hostile : kHostile) {
    const auto refused = SpecWith("families/" + std::string(hostile.family), hostile.from, hostile.to);
    ASSERT_FALSE(refused.ok()) << hostile.to;
    EXPECT_NE(refused.status().message().find(hostile.message), std::string::npos) << refused.status().ToString();
  }
}

}  // namespace
}  // namespace ringside
