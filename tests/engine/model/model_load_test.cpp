// Files that Model::Load accepts and refuses, GGUF and Hugging Face.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/families/network_plan.h"
#include "engine/families/rope_scaling.h"
#include "tests/engine/files/gguf_file_writer.h"
#include "tests/engine/model/family_names.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;
using Writer = GgufFileWriter;

constexpr auto kOverwrite =
    std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive;

class ModelLoad : public ::testing::Test {
 protected:
  ModelLoad() { std::filesystem::create_directories(folder_); }
  ~ModelLoad() override { std::filesystem::remove_all(folder_); }

  Result<std::unique_ptr<Model>> Load(const std::string& path) { return Model::Load(path, *backend_); }
  Result<std::unique_ptr<Model>> LoadFile(const Writer& writer) {
    const std::string path = folder_ + "/model.gguf";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << writer.Finish();
    return Load(path);
  }
  void ExpectRefused(const Result<std::unique_ptr<Model>>& model, StatusCode code, const std::string& message) {
    ASSERT_FALSE(model.ok()) << message;
    EXPECT_EQ(model.status().code(), code) << model.status().ToString();
    EXPECT_THAT(model.status().message(), HasSubstr(message));
    EXPECT_THAT(model.status().message(), HasSubstr(folder_));
  }
  // A golden folder with text replaced in its config.json.
  Result<std::unique_ptr<Model>> LoadChanged(const std::string& golden, const std::string& from,
                                             const std::string& to) {
    std::filesystem::copy(GoldenFolder(golden), folder_, kOverwrite);
    std::ifstream file(GoldenFolder(golden) + "/config.json");
    std::stringstream text;
    text << file.rdbuf();
    std::string config = text.str();
    const size_t at = config.find(from);
    CHECK(at != std::string::npos);
    config.replace(at, from.size(), to);
    std::ofstream(folder_ + "/config.json", std::ios::trunc) << config;
    return Load(folder_);
  }

  const std::string folder_ = ::testing::TempDir() + "model_load_" + std::to_string(::getpid());
  std::unique_ptr<Backend> backend_ = MakeTestBackend();
};

// A one-layer llama, hidden size 8, 2 heads of 4, feed-forward 16, 10 tokens. `skip` omits one tensor or key.
Writer Tiny(const std::string& skip = "", const std::string& architecture = "llama") {
  Writer writer;
  writer.String("general.architecture", architecture);
  const std::pair<const char*, uint32_t> keys[] = {{"block_count", 1},          {"context_length", 64},
                                                   {"embedding_length", 8},     {"feed_forward_length", 16},
                                                   {"attention.head_count", 2}, {"attention.head_count_kv", 1}};
  for (const auto& [key, value] : keys) {
    if (skip != key) writer.U32(architecture + "." + key, value);
  }
  if (skip != "epsilon") writer.F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  const std::pair<const char*, std::vector<uint64_t>> tensors[] = {
      {"token_embd.weight", {8, 10}},       {"output_norm.weight", {8}},       {"blk.0.attn_norm.weight", {8}},
      {"blk.0.attn_q.weight", {8, 8}},      {"blk.0.attn_k.weight", {8, 4}},   {"blk.0.attn_v.weight", {8, 4}},
      {"blk.0.attn_output.weight", {8, 8}}, {"blk.0.ffn_norm.weight", {8}},    {"blk.0.ffn_gate.weight", {8, 16}},
      {"blk.0.ffn_up.weight", {8, 16}},     {"blk.0.ffn_down.weight", {16, 8}}};
  for (const auto& [name, shape] : tensors) {
    if (skip != name) writer.Ones(name, shape);
  }
  return writer;
}

// As in OPT's published folders: without tokenizer.json.
TEST_F(ModelLoad, OptHasTheTwoTokenizerFilesOfGpt2) {
  std::filesystem::copy(FamilyFolder("opt"), folder_, kOverwrite);
  EXPECT_TRUE(Load(folder_).value()->tokenizer_data().tokens.empty());
  std::ofstream(folder_ + "/vocab.json") << R"({"<pad>": 0, "</s>": 2, "a": 3, "b": 4, "ab": 5, "\u0120": 6})";
  std::ofstream(folder_ + "/merges.txt") << "#version: 0.2\na b\n";
  std::ofstream(folder_ + "/tokenizer_config.json") << R"({"bos_token": "</s>", "add_bos_token": true})";
  const auto model = Load(folder_);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const auto tokenizer = std::move(*MakeTokenizer((*model)->tokenizer_data()));
  const TextPiece piece{"ab a", false};
  EXPECT_THAT(tokenizer->EncodeAll({&piece, 1}), ::testing::ElementsAre(5, 6, 3));
  EXPECT_EQ((*model)->tokenizer_data().text_begin, 2);
  EXPECT_TRUE(tokenizer->IsSpecial(2));
}

TEST_F(ModelLoad, AcceptsASingleFile) {
  const auto model = LoadFile(Tiny());
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const ModelSpec& spec = model.value()->spec();
  EXPECT_EQ(spec.name, "model");
  EXPECT_EQ(spec.head_dim, 4);
  EXPECT_EQ(spec.vocab, 10);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_TRUE(spec.rope_pairs == RopePairs::kAdjacent);
  EXPECT_TRUE(model.value()->tokenizer_data().tokens.empty());
  EXPECT_EQ(model.value()->chat_template(), "");
  const int64_t stored = 4 * (80 + 8 + 8 + 64 + 32 + 32 + 64 + 8 + 128 * 3);
  EXPECT_GE(model.value()->weight_bytes(), stored);
  EXPECT_LE(model.value()->weight_bytes(), 4 * stored);  // rows are padded to 16
}

TEST_F(ModelLoad, NamesEveryMissingTensor) {
  for (const std::string name :
       {"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight", "blk.0.attn_q.weight",
        "blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.0.attn_output.weight", "blk.0.ffn_norm.weight",
        "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"}) {
    ExpectRefused(LoadFile(Tiny(name)), StatusCode::kCorruption, "'" + name + "' is missing");
  }
}

TEST_F(ModelLoad, NamesEveryMissingKey) {
  for (const std::string key :
       {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"}) {
    ExpectRefused(LoadFile(Tiny(key)), StatusCode::kInvalidArgument, "'llama." + key + "' is missing");
  }
  ExpectRefused(LoadFile(Tiny("epsilon")), StatusCode::kInvalidArgument, "norm epsilon is 0");
  ExpectRefused(LoadFile(Writer()), StatusCode::kInvalidArgument, "'general.architecture' is missing");
}

TEST_F(ModelLoad, RefusesUnexpectedTensors) {
  const auto corruption = StatusCode::kCorruption;
  ExpectRefused(LoadFile(Tiny().Ones("blk.0.attn_rot.weight", {8})), corruption, "'blk.0.attn_rot.weight' is unknown");
  ExpectRefused(LoadFile(Tiny().Ones("blk.1.attn_norm.weight", {8})), corruption,
                "'blk.1.attn_norm.weight' is unknown");
  ExpectRefused(LoadFile(Tiny("blk.0.attn_q.weight").Ones("blk.0.attn_q.weight", {8, 4})), corruption,
                "'blk.0.attn_q.weight' has shape [4, 8], the model's metadata require [8, 8]");
  ExpectRefused(LoadFile(Tiny("blk.0.attn_norm.weight").Ones("blk.0.attn_norm.weight", {8, 1})), corruption,
                "'blk.0.attn_norm.weight' has shape [1, 8]");
  // One bias requires the others.
  ExpectRefused(LoadFile(Tiny().Ones("blk.0.attn_q.bias", {8})), corruption, "'blk.0.attn_k.bias' is missing");
  ExpectRefused(LoadFile(Tiny().Ones("blk.0.attn_k.bias", {4})), corruption, "'blk.0.attn_k.bias' is unknown");
  ExpectRefused(LoadFile(Tiny("blk.0.attn_norm.weight").Tensor("blk.0.attn_norm.weight", {8}, 28, std::string(64, 0))),
                StatusCode::kInvalidArgument, "stored as F64");
}

TEST_F(ModelLoad, AcceptsAnUntiedHeadAndBiases) {
  auto model = LoadFile(Tiny().Ones("output.weight", {8, 10}));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_FALSE((*model)->spec().tied_head);
  model = LoadFile(Tiny()
                       .Ones("blk.0.attn_q.bias", {8})
                       .Ones("blk.0.attn_k.bias", {4})
                       .Ones("blk.0.attn_v.bias", {4})
                       .Ones("blk.0.attn_output.bias", {8}));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_TRUE((*model)->spec().qkv_bias);
  EXPECT_TRUE((*model)->spec().attention_out_bias);
}

TEST_F(ModelLoad, RefusesUnknownInput) {
  const auto invalid = StatusCode::kInvalidArgument;
  ExpectRefused(LoadFile(Tiny("", "camel")), invalid, "architecture 'camel' is not supported; these are: afmoe");
  ExpectRefused(LoadFile(Tiny().String("llama.rope.scaling.type", "longrope")), invalid, "'longrope' is not supported");
  ExpectRefused(LoadFile(Tiny().U32("llama.rope.scaling.type", 1)), invalid,
                "'llama.rope.scaling.type' is not a string");
  ExpectRefused(LoadFile(Tiny().U32("llama.expert_count", 8)), invalid, "number of experts used is 0");
  ExpectRefused(LoadFile(Tiny().U32("llama.expert_count", 70'000)), invalid, "number of experts is 70000");
  ExpectRefused(LoadFile(Tiny().F32("llama.attn_logit_softcapping", 50)), invalid,
                "'llama.attn_logit_softcapping' is 50, which is not supported");
  ExpectRefused(LoadFile(Tiny().U32("split.count", 2)), invalid, "split model");
}

TEST_F(ModelLoad, RefusesMismatchedMetadata) {
  const auto invalid = StatusCode::kInvalidArgument;
  const auto with = [&](const std::string& key, uint32_t value) {
    return LoadFile(Tiny(key).U32("llama." + key, value));
  };
  ExpectRefused(with("attention.head_count", 3), invalid, "hidden size 8 is not a multiple of its 3 heads");
  ExpectRefused(with("attention.head_count", 0), invalid, "number of heads is 0");
  ExpectRefused(with("attention.head_count_kv", 0), invalid, "number of key and value heads is 0");
  ExpectRefused(with("attention.head_count_kv", 4), invalid, "number of key and value heads is 4");
  ExpectRefused(with("block_count", 0), invalid, "number of layers is 0");
  ExpectRefused(with("block_count", 4'000'000'000), invalid, "number of layers is 4000000000");
  ExpectRefused(with("embedding_length", 1 << 30), invalid, "hidden size is 1073741824");
  ExpectRefused(with("feed_forward_length", 0), invalid, "feed-forward size is 0");
  ExpectRefused(with("context_length", 0), invalid, "trained context is 0");
  ExpectRefused(with("vocab_size", 11), invalid, "'llama.vocab_size' is 11, its embedding has 10 rows");
  ExpectRefused(with("rope.dimension_count", 6), invalid, "rotated dimensions is 6");
  ExpectRefused(with("rope.dimension_count", 3), invalid, "rotated dimensions is 3, an odd number");
  ExpectRefused(with("attention.value_length", 6), invalid, "keys of 4 and values of 6");
  ExpectRefused(LoadFile(Tiny().F32("llama.rope.freq_base", -1)), invalid, "rope base is -1");
  ExpectRefused(LoadFile(Tiny().String("llama.rope.scaling.type", "linear").F32("llama.rope.scaling.factor", 0)),
                invalid, "rope scaling factor is 0");
  ExpectRefused(LoadFile(Tiny().Ones("rope_freqs.weight", {3})), invalid, "3 rope factors, not 2");
}

TEST_F(ModelLoad, RefusesAbsentFilesAndFolders) {
  EXPECT_EQ(Load(folder_ + "/absent.gguf").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Load(folder_).status().code(), StatusCode::kNotFound);
}

TEST_F(ModelLoad, FingerprintFollowsBytesNamesAndSpec) {
  const auto fingerprint = [&](const Writer& writer) { return LoadFile(writer).value()->fingerprint(); };
  const Fingerprint base = fingerprint(Tiny());
  EXPECT_EQ(fingerprint(Tiny()), base);
  EXPECT_EQ(fingerprint(Tiny().String("general.name", "another")), base) << "a name changes no number";
  EXPECT_NE(fingerprint(Tiny().F32("llama.rope.freq_base", 500000)), base);
  EXPECT_NE(fingerprint(Tiny("epsilon").F32("llama.attention.layer_norm_rms_epsilon", 1e-6f)), base);
  EXPECT_NE(fingerprint(Tiny().Ones("output.weight", {8, 10})), base);
  std::string ones;
  for (int i = 0; i < 8; ++i) ones += Writer::Bytes(i == 7 ? 1.0000001f : 1.0f);
  EXPECT_NE(fingerprint(Tiny("blk.0.attn_norm.weight").Tensor("blk.0.attn_norm.weight", {8}, 0, ones)), base);
}

// As in Qwen2.5, whose max_position_embeddings is the length trained before YaRN.
TEST_F(ModelLoad, YarnContextIsTheExtendedOne) {
  const auto context = [&](const std::string& type, int64_t original) {
    const std::string scaling = R"("factor": 4.0, "original_max_position_embeddings": )" + std::to_string(original);
    return LoadChanged("llama", R"("rope_type": "default")", scaling + R"(, "rope_type": ")" + type + '"')
        .value()
        ->spec()
        .context();
  };
  EXPECT_EQ(context("yarn", 2048), 8192);
  EXPECT_EQ(context("yarn", 1024), 4096) << "not four times max_position_embeddings, 2048";
  EXPECT_EQ(context("yarn", 64), 2048) << "never less than the file says";
  EXPECT_EQ(context("linear", 2048), 2048) << "such files count it already";
}

TEST_F(ModelLoad, HuggingFaceSpecs) {
  const auto spec = [&](const char* name) { return Load(GoldenFolder(name)).value()->spec(); };
  EXPECT_EQ(spec("llama").name, "llama");
  EXPECT_EQ(spec("llama").architecture, "llama");
  EXPECT_EQ(spec("llama").head_dim, 16);
  EXPECT_FALSE(spec("llama").tied_head);
  EXPECT_TRUE(spec("llama").rope_pairs == RopePairs::kHalves);
  EXPECT_EQ(spec("mistral").Layer(0).window, 64);
  EXPECT_EQ(spec("mistral").context(), 64);
  EXPECT_EQ(spec("llama").context(), 2048);
  EXPECT_TRUE(spec("qwen2").qkv_bias);
  EXPECT_FALSE(spec("qwen2").attention_out_bias);
  EXPECT_TRUE(spec("qwen2").tied_head);
  EXPECT_TRUE(spec("qwen3").qk_norm == QkNorm::kHeads);
  EXPECT_TRUE(spec("gpt2").learned_positions);
  EXPECT_EQ(spec("gpt2").trained_context, 64);
  EXPECT_EQ(spec("gpt2").rotary, 0);
  EXPECT_TRUE(spec("gpt2").norm == NormKind::kLayer);
  EXPECT_FALSE(spec("gpt2").gated);
  EXPECT_TRUE(spec("gpt2").activation == Activation::kGeluTanh);
}

TEST_F(ModelLoad, HuggingFaceRefusals) {
  const auto invalid = StatusCode::kInvalidArgument, corruption = StatusCode::kCorruption;
  ExpectRefused(LoadChanged("llama", "\"llama\"", "\"perceptron\""), invalid,
                "architecture 'perceptron' is not supported; these are: afmoe, apertus, arcee, bloom, ");
  // Reported before the weights are looked for, which may be a long download.
  const std::string bare = folder_ + "/bare";
  std::filesystem::create_directories(bare);
  std::ofstream(bare + "/config.json") << R"({"model_type": "rwkv"})";
  ExpectRefused(Load(bare), invalid, "architecture 'rwkv' is not supported: it has no layer with attention");
  std::filesystem::remove_all(bare);
  ExpectRefused(LoadChanged("llama", "\"model_type\"", "\"model_tipe\""), invalid, "'model_type' is missing");
  ExpectRefused(LoadChanged("llama", "\"silu\"", "\"tanh\""), invalid, "'hidden_act' 'tanh' is not supported");
  ExpectRefused(LoadChanged("llama", "\"hidden_size\": 32", "\"hidden_size\": \"32\""), invalid,
                "'hidden_size' is missing");
  ExpectRefused(LoadChanged("llama", "\"hidden_size\": 32", "\"hidden_size\": 64"), corruption,
                "'model.embed_tokens.weight' has shape [96, 32], the model's metadata require [96, 64]");
  ExpectRefused(LoadChanged("llama", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1"), corruption,
                "'model.layers.1.");
  ExpectRefused(LoadChanged("llama", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"), corruption,
                "'model.layers.2.input_layernorm.weight' is missing");
  ExpectRefused(LoadChanged("llama", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3"), invalid,
                "4 heads are not a multiple of its 3");
  ExpectRefused(LoadChanged("llama", "\"mlp_bias\": false", "\"mlp_bias\": true"), corruption,
                "gate_proj.bias' is missing");
  ExpectRefused(LoadChanged("llama", "\"rope_type\": \"default\"", "\"rope_type\": \"dynamic\", \"factor\": 2.0"),
                invalid, "rope scaling 'dynamic' is not supported");
  ExpectRefused(LoadChanged("llama", "\"rope_type\": \"default\"", "\"rope_type\": \"linear\""), invalid,
                "'rope_parameters.factor' is missing");
  ExpectRefused(LoadChanged("llama", "\"vocab_size\": 96", "\"vocab_size\": 96, \"vocab_size\": 96"), corruption,
                "'vocab_size' occurs twice");
  const auto quantised_by = [&](const std::string& config) {
    return LoadChanged("llama", "\"vocab_size\": 96", "\"vocab_size\": 96, \"quantization_config\": " + config);
  };
  ExpectRefused(quantised_by("{\"bits\": 4}"), invalid, "'quantization_config.quant_method' '' is not supported");
  ExpectRefused(quantised_by("7"), invalid, "'quantization_config.quant_method' '' is not supported");
  ExpectRefused(quantised_by("{\"quant_method\": \"bitsandbytes\"}"), invalid,
                "'quantization_config.quant_method' 'bitsandbytes' is not supported, only awq, gptq, mxfp4, fp8, "
                "fbgemm_fp8, compressed-tensors, modelopt");
  ExpectRefused(LoadChanged("llama_biases", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"),
                corruption, "'lm_head.weight' is missing");
  ExpectRefused(LoadChanged("gpt2", "\"n_head\": 2", "\"n_head\": 32"), invalid, "head size is 1, an odd number");
  ExpectRefused(LoadChanged("gpt2", "\"scale_attn_weights\": true", "\"scale_attn_weights\": false"), invalid,
                "'scale_attn_weights' = false is not supported");
}

TEST_F(ModelLoad, PackedRefusals) {
  const auto invalid = StatusCode::kInvalidArgument;
  const std::string bits = "\"bits\": 4", gptq = "packed/gptq", awq = "packed/awq";
  ExpectRefused(LoadChanged(gptq, bits, "\"bits\": 3"), invalid,
                "'quantization_config.bits' 3 is not supported, only 4");
  ExpectRefused(LoadChanged(awq, bits, "\"bits\": 8"), invalid, "'quantization_config.bits' 8 is not supported");
  ExpectRefused(LoadChanged(gptq, bits, "\"byts\": 4"), invalid, "'quantization_config.bits' is missing");
  ExpectRefused(LoadChanged(gptq, "\"group_size\": 128", "\"group_size\": 48"), invalid,
                "'quantization_config.group_size' 48 is not supported, only multiples of 32, and -1");
  ExpectRefused(LoadChanged(gptq, "\"group_size\": 128", "\"group_size\": 64"), StatusCode::kCorruption,
                ".scales' has shape [1, 128], expected [2, 128]");
  ExpectRefused(LoadChanged(awq, "\"version\": \"gemm\"", "\"version\": \"gemv\""), invalid,
                "'quantization_config.version' 'gemv' is not supported, only gemm, GEMM");
  ExpectRefused(LoadChanged(gptq, "\"checkpoint_format\": \"gptq\"", "\"checkpoint_format\": \"marlin\""), invalid,
                "'quantization_config.checkpoint_format' 'marlin' is not supported, only gptq, gptq_v2");
  ExpectRefused(LoadChanged(gptq, bits, bits + ", \"is_marlin_format\": true"), invalid,
                "'quantization_config.is_marlin_format' = true is not supported");
  ExpectRefused(LoadChanged(gptq, bits, bits + ", \"dynamic\": {\"x\": 1}"), invalid,
                "'quantization_config.dynamic' is not supported");
}

TEST_F(ModelLoad, E4M3Refusals) {
  const auto quantised_by = [&](const std::string& config) {
    return LoadChanged("llama", "\"vocab_size\": 96", "\"vocab_size\": 96, \"quantization_config\": {" + config + "}");
  };
  const auto invalid = StatusCode::kInvalidArgument;
  for (const std::string size : {"[0, 128]", "[-1, 128]", "[128, 100]", "[128, 9999999]", "[1048577, 32]"}) {
    ExpectRefused(quantised_by("\"quant_method\": \"fp8\", \"weight_block_size\": " + size), invalid,
                  "'quantization_config.weight_block_size' " + size + " is not supported");
  }
  for (const std::string size : {"128", "[128]", "[128, 128, 128]", "[128, \"a\"]"}) {
    ExpectRefused(quantised_by("\"quant_method\": \"fp8\", \"weight_block_size\": " + size), invalid,
                  "'quantization_config.weight_block_size' is not a list of two numbers");
  }
  ExpectRefused(quantised_by("\"quant_method\": \"fp8\", \"fmt\": \"e5m2\""), invalid,
                "'quantization_config.fmt' 'e5m2' is not supported, only e4m3");
}

TEST_F(ModelLoad, CompressedTensorsRefusals) {
  const auto refused = [&](const std::string& weights, const std::string& format, const std::string& message) {
    const std::string config = R"({"quant_method": "compressed-tensors", "format": ")" + format +
                               R"(", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {)" + weights +
                               "}}}}";
    ExpectRefused(LoadChanged("llama", "\"vocab_size\": 96", "\"vocab_size\": 96, \"quantization_config\": " + config),
                  StatusCode::kInvalidArgument, message);
  };
  const std::string int4 = R"("num_bits": 4, "type": "int", )", float8 = R"("num_bits": 8, "type": "float", )",
                    of = "config_groups.group_0.weights.";
  refused(int4 + R"("dynamic": false)", "marlin-24",
          "'quantization_config.format' 'marlin-24' is not supported, only pack-quantized, int-");
  refused(float8 + R"("dynamic": false)", "pack-quantized", of + "type' 'float' is not supported, only int and float");
  refused(R"("num_bits": 3)", "pack-quantized", of + "num_bits' 3 is not supported, only 4 and 8");
  refused(R"("type": "int")", "pack-quantized", of + "num_bits' is missing");
  refused(int4 + R"("strategy": "token")", "pack-quantized", of + "strategy' 'token' is not supported");
  refused(int4 + R"("strategy": "block")", "pack-quantized", of + "strategy' 'block' is not supported");
  refused(int4 + R"("strategy": "group")", "pack-quantized", of + "group_size' is missing");
  for (const std::string size : {"0", "-2", "16", "48", "1048608"}) {
    refused(int4 + R"("strategy": "group", "group_size": )" + size, "pack-quantized",
            of + "group_size' " + size + " is not supported, only multiples of 32, and -1");
  }
  refused(float8 + R"("strategy": "block")", "float-quantized", of + "block_structure' is not a list of two numbers");
  refused(float8 + R"("strategy": "block", "block_structure": [0, 32])", "float-quantized",
          of + "block_structure' [0, 32] is not supported");
  refused(float8 + R"("dynamic": true)", "float-quantized", of + "dynamic' true is not supported");
  refused(R"("num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 32)", "nvfp4-pack-quantized",
          of + "group_size' 32 is not supported, only 16");
  const auto refused_config = [&](const std::string& config, const std::string& message) {
    ExpectRefused(LoadChanged("llama", "\"vocab_size\": 96",
                              "\"vocab_size\": 96, \"quantization_config\": {\"quant_method\": " + config + "}"),
                  StatusCode::kInvalidArgument, message);
  };
  refused_config(R"("compressed-tensors", "format": "pack-quantized")",
                 "'quantization_config.format' 'pack-quantized' is not supported, only float-quantized");
  refused_config(R"("compressed-tensors", "ignore": "lm_head")", "'quantization_config.ignore' is not a list");
  refused_config(R"("compressed-tensors", "ignore": [7])", "'quantization_config.ignore.0' is not a string");
  refused_config(R"("compressed-tensors", "sparsity_config": {"format": "sparse-24-bitmask"})",
                 "'quantization_config.sparsity_config.format' 'sparse-24-bitmask' is not supported, only dense");
  refused_config(R"("compressed-tensors", "transform_config": {"config_groups": {"u": {}}})",
                 "'quantization_config.transform_config.config_groups' is not supported");
  refused_config(R"("modelopt", "quant_algo": "W4A16_AWQ")", "'W4A16_AWQ' is not supported, only FP8 and NVFP4");
  refused_config(R"("modelopt", "quant_algo": "NVFP4", "group_size": 32)", "32 is not supported, only 16");
}

// GPT-2's files contain attention masks, other old ones rotary tables: known and ignored.
TEST_F(ModelLoad, IgnoresOnlyKnownExtras) {
  std::ifstream file(GoldenFolder("gpt2") + "/model.safetensors", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  std::string header = bytes.substr(8, header_bytes);
  header = header.substr(0, header.rfind('}'));
  const std::string data = bytes.substr(8 + header_bytes);
  const auto load_with = [&](const std::string& name) {
    std::filesystem::copy(GoldenFolder("gpt2"), folder_, kOverwrite);
    const std::string longer = header + ",\"" + name + R"(":{"dtype":"BOOL","shape":[1,1],"data_offsets":[)" +
                               std::to_string(data.size()) + "," + std::to_string(data.size() + 1) + "]}}";
    std::ofstream(folder_ + "/model.safetensors", std::ios::binary | std::ios::trunc)
        << Writer::Bytes(static_cast<uint64_t>(longer.size())) << longer << data << '\1';
    return Load(folder_);
  };
  const auto model = load_with("transformer.h.1.attn.bias");
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  // Unaligned data give the same numbers.
  EXPECT_EQ(model.value()->fingerprint(), Load(GoldenFolder("gpt2")).value()->fingerprint());
  ExpectRefused(load_with("transformer.h.1.attn.scale"), StatusCode::kCorruption,
                "'transformer.h.1.attn.scale' is unknown");
  ExpectRefused(load_with("transformer.h.2.attn.bias"), StatusCode::kCorruption,
                "'transformer.h.2.attn.bias' is unknown");
}

// A backend that records weight rows in load order.
class RecordingBackend : public ForwardingBackend {
 public:
  RecordingBackend() : ForwardingBackend(MakeTestBackend()) {}
  Result<Weight> LoadWeight(const HostTensor& host) override {
    rows_.push_back(host.rows);
    return ForwardingBackend::LoadWeight(host);
  }
  const std::vector<int64_t>& rows() const { return rows_; }

 private:
  std::vector<int64_t> rows_;
};

// So that they are adjacent on a device and form one matrix for its kernels.
TEST_F(ModelLoad, MatricesOfOneInputAreContiguous) {
  RecordingBackend backend;
  const auto model = Model::Load(GoldenFolder("llama"), backend);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const ModelSpec& spec = model.value()->spec();
  const int64_t queries = spec.heads * spec.head_dim, keys = spec.kv_heads * spec.head_dim;
  std::vector<int64_t> layers;
  for (int64_t i = 0; i < spec.layers; ++i) {
    for (const int64_t rows : {queries, keys, keys, spec.hidden, spec.ffn, spec.ffn, spec.hidden})
      layers.push_back(rows);
  }
  ASSERT_GT(spec.layers, 1);
  EXPECT_NE(std::search(backend.rows().begin(), backend.rows().end(), layers.begin(), layers.end()),
            backend.rows().end())
      << ::testing::PrintToString(backend.rows());
}

// A model that still loads must also run.
TEST_F(ModelLoad, FlippedMetadataBitsAreHarmless) {
  const std::string bytes = Tiny().Finish();
  const size_t metadata_bytes = bytes.size() - 4 * (80 + 8 * 3 + 64 * 2 + 32 * 2 + 128 * 3);
  int loaded = 0;
  for (size_t bit = 0; bit < metadata_bytes * 8; bit += 3) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const std::string path = folder_ + "/model.gguf";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    auto model = Load(path);
    if (!model.ok()) continue;
    ++loaded;
    OwnCache cache(*model.value(), {1, 4, Eviction::kToken}, 3);
    RunAll(*model.value(), cache.get(), ScatteredIds(7, model.value()->spec().vocab), 3);
  }
  EXPECT_GT(loaded, 0) << "names, say, do not matter";
}

TEST_F(ModelLoad, FlippedConfigBitsAreHarmless) {
  std::filesystem::copy(GoldenFolder("llama_biases"), folder_, kOverwrite);
  std::ifstream file(GoldenFolder("llama_biases") + "/config.json");
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  int loaded = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 11) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(folder_ + "/config.json", std::ios::binary | std::ios::trunc) << damaged;
    auto model = Load(folder_);
    if (!model.ok()) continue;
    ++loaded;
    OwnCache cache(*model.value(), {1, 4, Eviction::kToken}, 3);
    RunAll(*model.value(), cache.get(), ScatteredIds(7, model.value()->spec().vocab), 3);
  }
  EXPECT_GT(loaded, 0);
}

TEST_F(ModelLoad, IgnoresTheCopyOfATiedHead) {
  EXPECT_TRUE(LoadChanged("llama", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true").ok());
}

TEST_F(ModelLoad, ReadsTheOlderRopeScalingFormat) {
  const auto changed = LoadChanged(
      "llama_biases", "\"rope_parameters\": {\n    \"rope_theta\": 10000.0,\n    \"rope_type\": \"default\"\n  }",
      "\"rope_theta\": 500000.0, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}");
  ASSERT_TRUE(changed.ok()) << changed.status().ToString();
  EXPECT_DOUBLE_EQ(changed.value()->spec().rotations[0].inverse_frequencies[0], 0.5);
  EXPECT_DOUBLE_EQ(changed.value()->spec().rotations[0].inverse_frequencies[4], 0.5 / std::sqrt(500000.0));
}

TEST_F(ModelLoad, FindsChatTemplates) {
  std::filesystem::copy(GoldenFolder("llama"), folder_, kOverwrite);
  const auto chat_template = [&] { return Load(folder_).value()->chat_template(); };
  EXPECT_EQ(chat_template(), "");
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  };
  write("tokenizer_config.json", R"({"chat_template":"one {{ x }}"})");
  EXPECT_EQ(chat_template(), "one {{ x }}");
  write("tokenizer_config.json",
        R"({"chat_template":[{"name":"tools","template":"t"},{"name":"default","template":"d"}]})");
  EXPECT_EQ(chat_template(), "d");
  const Fingerprint before = Load(folder_).value()->fingerprint();
  write("chat_template.jinja", "file");
  EXPECT_NE(Load(folder_).value()->fingerprint(), before);
  EXPECT_EQ(chat_template(), "file");
}

TEST(RopeScaling, Llama3KeepsShortAndStretchesLongWavelengths) {
  RopeScaling scaling;
  scaling.base = 500000;
  const std::vector<double> plain = MakeRotation(scaling, 64).value().inverse_frequencies;
  EXPECT_EQ(plain.front(), 1.0);
  scaling.kind = RopeScaling::Kind::kLlama3;
  scaling.factor = 8;
  scaling.original_context = 8192;
  const std::vector<double> stretched = MakeRotation(scaling, 64).value().inverse_frequencies;
  EXPECT_EQ(stretched.front(), 1.0);
  EXPECT_DOUBLE_EQ(stretched.back(), plain.back() / 8);
  for (size_t j = 0; j < plain.size(); ++j) {
    EXPECT_LE(stretched[j], plain[j]);
    EXPECT_GE(stretched[j], plain[j] / 8 * (1 - 1e-12));
  }
  scaling.low_freq_factor = 4;
  EXPECT_EQ(MakeRotation(scaling, 64).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringside
