// FasterTransformer checkpoint folders, written by tests/golden/make_faster_transformer.py from the golden models: the
// same logits bit for bit, for any number of GPUs, and refusals that name the bad file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FasterTransformer : public ::testing::Test {
 protected:
  FasterTransformer() { fs::create_directories(folder_); }
  ~FasterTransformer() override { fs::remove_all(folder_); }

  // Writes folders for these numbers of GPUs; returns the path of the last.
  std::string Write(const std::string& golden, const std::string& gpus = "1", const std::string& type = "fp32") {
    const std::string command = "python3 " + GoldenFolder("make_faster_transformer.py") + " " + GoldenFolder(golden) +
                                " " + folder_ + " --gpus " + gpus + " --type " + type;
    CHECK_EQ(std::system(command.c_str()), 0);
    return folder_ + "/" + gpus.substr(gpus.rfind(' ') + 1) + "-gpu";
  }
  Result<std::unique_ptr<Model>> Load(const std::string& path) { return Model::Load(path, *backend_); }
  std::vector<float> Logits(const std::string& path) {
    auto model = Load(path);
    return Logits(**model);
  }
  static std::vector<float> Logits(Model& model) {
    OwnCache cache(model, {0, 64, Eviction::kToken}, 16);
    return RunAll(model, cache.get(), GoldenIds(), 16);
  }
  void ExpectRefused(const std::string& path, StatusCode code, const std::string& message) {
    const auto model = Load(path);
    EXPECT_EQ(model.status().code(), code) << message << ": " << model.status().ToString();
    EXPECT_THAT(model.status().message(), HasSubstr(message));
    EXPECT_THAT(model.status().message(), HasSubstr(folder_));
  }
  static std::string Read(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static void Put(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
  // Changes config.ini; "" removes the line.
  static void Change(const std::string& path, const std::string& key, const std::string& value) {
    std::stringstream lines(Read(path + "/config.ini"));
    std::string changed;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with(key + " =")) changed += line + "\n";
    }
    Put(path + "/config.ini", changed + (value.empty() ? "" : key + " = " + value + "\n"));
  }

  const std::string folder_ = ::testing::TempDir() + "faster_transformer_" + std::to_string(::getpid());
  std::unique_ptr<Backend> backend_ = MakeTestBackend();
};

TEST_F(FasterTransformer, LogitsEqualTheSafetensors) {
  for (const std::string family :
       {"gpt2", "families/opt", "families/bloom", "families/gptj", "families/gpt_neox", "families/gpt_neox_serial"}) {
    const std::vector<float> want = Logits(GoldenFolder(family));
    Write(family, "1 2 4 8");
    for (const std::string gpus : {"1", "2", "4", "8"}) {
      EXPECT_TRUE(Logits(folder_ + "/" + gpus + "-gpu") == want) << family << " for " << gpus << " GPUs";
    }
    EXPECT_TRUE(Logits(folder_) == want) << "the folder above: " << family;
    fs::remove_all(folder_);
  }
}

TEST_F(FasterTransformer, LogitsOfT5EqualTheSafetensors) {
  for (const std::string network : {"encoders/t5", "encoders/t5_gated"}) {
    const std::vector<float> want = LogitsOfAnswer(**Load(GoldenFolder(network)));
    Write(network, "1 2 4");
    for (const std::string gpus : {"1", "2", "4"}) {
      const auto model = Load(folder_ + "/" + gpus + "-gpu");
      ASSERT_TRUE(model.ok()) << model.status().ToString();
      EXPECT_TRUE(LogitsOfAnswer(**model) == want) << network << " for " << gpus << " GPUs";
      EXPECT_EQ((*model)->spec().answer_start, 3);
    }
    fs::remove_all(folder_);
  }
}

TEST_F(FasterTransformer, T5ErrorNamesWhatIsMissing) {
  const std::string path = Write("encoders/t5_gated", "2"), config = Read(path + "/config.ini");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = config;
    changed.replace(changed.find(from), from.size(), to);
    Put(path + "/config.ini", changed);
  };
  const auto invalid = StatusCode::kInvalidArgument;
  with("t5_with_bias = false", "t5_with_bias = true");
  ExpectRefused(path, invalid, "'t5_with_bias' = 'true' is not supported");
  with("position_embedding_type = relative", "position_embedding_type = absolute");
  ExpectRefused(path, invalid, "'position_embedding_type' = 'absolute' is not supported");
  with("feed_forward_proj = gated-gelu", "feed_forward_proj = gated-silu");
  ExpectRefused(path, invalid, "'feed_forward_proj' = 'gated-silu' is not supported");
  with("d_ff = 48", "d_ff = 96");
  ExpectRefused(path, invalid, "[encoder] and [decoder] have different sizes");
  with("d_model = 32\n", "");
  ExpectRefused(path, invalid, "'d_model' is missing");
  Put(path + "/config.ini", config);
  for (const std::string name :
       {"shared.weight_T", "lm_head.weight", "encoder.block.2.layer.1.DenseReluDense.wi2.weight.1",
        "decoder.block.1.layer.0.SelfAttention.qkv.weight.0",
        "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight.1"}) {
    const std::string file = path + "/" + name + ".bin", bytes = Read(file);
    fs::remove(file);
    ExpectRefused(path, StatusCode::kCorruption, file + " is missing");
    Put(file, bytes.substr(4));
    ExpectRefused(path, StatusCode::kCorruption, file + " has ");
    Put(file, bytes);
  }
}

TEST_F(FasterTransformer, AcceptsEveryType) {
  const std::vector<float> want = Logits(GoldenFolder("families/opt"));  // exact in float16
  EXPECT_TRUE(Logits(Write("families/opt", "2", "fp16")) == want);
  fs::remove_all(folder_);
  const double error = RelativeError(Logits(Write("families/opt", "2", "bf16")), want);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 0.05);  // 8 bits of mantissa
  Change(folder_ + "/2-gpu", "weight_data_type", "int8");
  ExpectRefused(folder_, StatusCode::kInvalidArgument, "'weight_data_type' = 'int8' is not supported");
}

TEST_F(FasterTransformer, LoadsWithOtherRankCounts) {
  const std::string path = Write("families/gpt_neox", "4");
  const auto ranks = testing::MakeTestRanks("cpu", {.tensor = 2});
  Backend* const backends[] = {ranks[0].get(), ranks[1].get()};
  auto shared = Model::Load(path, backends);
  ASSERT_TRUE(shared.ok()) << shared.status().ToString();
  EXPECT_LT(RelativeError(Logits(**shared), Logits(path)), 1e-5);
  EXPECT_EQ((*shared)->spec().name, fs::path(folder_).filename().string()) << "not what the subfolder is called";
}

// The fingerprint depends on the tensors' bytes, not on their partition.
TEST_F(FasterTransformer, FingerprintIgnoresSharding) {
  Write("gpt2", "1 4");
  EXPECT_EQ((*Load(folder_ + "/1-gpu"))->fingerprint(), (*Load(folder_ + "/4-gpu"))->fingerprint());
}

TEST_F(FasterTransformer, AcceptsTheSumOfTwoBiases) {
  const std::string path = Write("families/gpt_neox", "2");
  const std::vector<float> want = Logits(path);
  for (const std::string layer : {"0", "1"}) {
    fs::remove(path + "/model.layers." + layer + ".attention.dense.bias.bin");
    fs::remove(path + "/model.layers." + layer + ".mlp.dense_4h_to_h.bias.bin");
  }
  EXPECT_LT(RelativeError(Logits(path), want), 1e-5);
}

TEST_F(FasterTransformer, ErrorNamesTheFile) {
  const std::string path = Write("gpt2", "2");
  const auto corruption = StatusCode::kCorruption;
  for (const std::string name : {"wte", "wpe", "final_layernorm.bias", "layers.1.attention.dense.bias",
                                 "layers.0.attention.query_key_value.weight.0", "layers.1.mlp.dense_4h_to_h.weight.1",
                                 "layers.1.mlp.dense_h_to_4h.bias.1"}) {
    const std::string file = path + "/model." + name + ".bin", bytes = Read(file);
    fs::remove(file);
    ExpectRefused(path, corruption, file + " is missing");
    Put(file, bytes.substr(4));
    ExpectRefused(path, corruption, file + " has ");
    Put(file, bytes + bytes);
    ExpectRefused(path, corruption, file + " has ");
    Put(file, "");
    ExpectRefused(path, corruption, file + " has 0 bytes");
    Put(file, bytes);
  }
  Put(path + "/model.layers.0.attention.dense.weight.2.bin", "");
  ExpectRefused(path, corruption, "model.layers.0.attention.dense.weight.2.bin is unexpected");
  fs::remove(path + "/model.layers.0.attention.dense.weight.2.bin");
  Put(path + "/model.layers.0.attention.dense.weight.bin", "");
  ExpectRefused(path, corruption, "'model.layers.0.attention.dense.weight' exists both whole and in parts");
  fs::remove(path + "/model.layers.0.attention.dense.weight.bin");
  Put(path + "/model.layers.0.after_attention_adapter.dense.bias.bin", "");
  ExpectRefused(path, corruption,
                "'model.layers.0.after_attention_adapter.dense.bias' is unknown for this architecture");
  fs::remove(path + "/model.layers.0.after_attention_adapter.dense.bias.bin");
  EXPECT_TRUE(Load(path).ok()) << "what was changed was put back";
}

TEST_F(FasterTransformer, ErrorNamesTheSetting) {
  const std::string path = Write("gpt2");
  const auto invalid = StatusCode::kInvalidArgument;
  const std::string whole = Read(path + "/config.ini");
  const struct {
    const char *key, *value, *message;
  } cases[] = {
      {"head_num", "", "config.ini: 'head_num' is missing"},
      {"head_num", "two", "config.ini: 'head_num' is 'two', not a number"},
      {"head_num", "99999999999999999999", "'head_num' is '99999999999999999999', not a number in range"},
      {"head_num", "-1", "'head_num' is -1"},
      {"num_layer", "1000000000", "number of layers is 1000000000"},
      {"size_per_head", "9223372036854775807", "'size_per_head' is 9223372036854775807"},
      {"vocab_size", "0", "vocabulary"},
      {"max_pos_seq_len", "", "'max_pos_seq_len' is missing"},
      {"layernorm_eps", "nan", "norm epsilon is nan"},
      {"layernorm_type", "post_layernorm", "'layernorm_type' = 'post_layernorm' is not supported"},
      {"activation_type", "SiGLU", "'activation_type' = 'SiGLU' is not supported"},
      {"has_adapters", "True", "'has_adapters' = 'True' is not supported"},
      {"has_post_decoder_layernorm", "0", "'has_post_decoder_layernorm' = '0' is not supported"},
      {"has_adapters", "maybe", "'has_adapters' is 'maybe', neither true nor false"},
      {"prompt_learning_type", "3", "'prompt_learning_type' = '3' is not supported"},
      {"expert_num", "8", "'expert_num' = '8' is not supported"},
      {"model_variant", "bloom-post", "'model_variant' = 'bloom-post' is not supported"},
  };
  for (const auto& c : cases) {
    Change(path, c.key, c.value);
    ExpectRefused(path, invalid, c.message);
    Put(path + "/config.ini", whole);
  }
  Change(path, "tensor_para_size", "4");
  ExpectRefused(path, StatusCode::kCorruption, "model.layers.0.attention.query_key_value.weight.1.bin is missing");
  Put(path + "/config.ini", "[bert]\n");
  ExpectRefused(path, invalid, "has none of [gpt], [gptj], [gptneox], or [encoder] with [decoder]");
  Put(path + "/config.ini", "[gpt]\nwords\n");
  ExpectRefused(path, StatusCode::kCorruption, "config.ini: line 2 is neither");
}

TEST_F(FasterTransformer, RefusesLinksOutOfTheFolder) {
  const std::string path = Write("gpt2"), outside = folder_ + "_outside";
  fs::create_directories(outside);
  for (const std::string name : {"model.wte.bin", "config.ini"}) {
    const std::string file = path + "/" + name, kept = outside + "/" + name;
    fs::rename(file, kept);
    fs::create_symlink(kept, file);
    ExpectRefused(path, StatusCode::kInvalidArgument, file + ": is a link to a place outside " + path);
    fs::remove(file);
    fs::rename(kept, file);
  }
  fs::rename(path + "/model.wte.bin", path + "/kept");
  fs::create_symlink("kept", path + "/model.wte.bin");
  EXPECT_TRUE(Load(path).ok()) << "a link inside the folder is as good as a file";
  fs::create_symlink(outside + "/tokenizer.json", path + "/tokenizer.json");
  Put(outside + "/tokenizer.json", "{}");
  ExpectRefused(path, StatusCode::kInvalidArgument, path + "/tokenizer.json: is a link to a place outside");
  fs::remove_all(outside);
}

// GPT-2's two files, next to the weights or in the parent folder; the nearer one is used.
TEST_F(FasterTransformer, FindsATokenizer) {
  const std::string path = Write("gpt2", "2");
  EXPECT_TRUE((*Load(path))->tokenizer_data().tokens.empty());
  Put(folder_ + "/vocab.json", R"({"a":0,"b":1,"ab":2,"<|endoftext|>":3})");
  Put(folder_ + "/merges.txt", "#version: 0.2\na b\n");
  auto model = Load(path);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const TokenizerData& data = (*model)->tokenizer_data();
  EXPECT_THAT(data.tokens, ::testing::ElementsAre("a", "b", "ab", "<|endoftext|>"));
  EXPECT_THAT(data.merges, ::testing::ElementsAre(std::pair<std::string, std::string>("a", "b")));
  EXPECT_EQ(data.bos, 1);
  EXPECT_EQ(data.eos, 2) << "config.ini's end_id";
  EXPECT_THAT(data.end_of_turn, ::testing::ElementsAre(2, 3));
  const auto tokenizer = MakeTokenizer(data);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const TextPiece piece{"abb"};
  EXPECT_THAT((*tokenizer)->EncodeAll({&piece, 1}), ::testing::ElementsAre(2, 1));

  Put(path + "/vocab.json", R"({"a":0})");
  ExpectRefused(path, StatusCode::kIo, "merges.txt");
  Put(path + "/merges.txt", "a\n");
  ExpectRefused(path, StatusCode::kInvalidArgument, "vocab.json, merges.txt");
}

}  // namespace
}  // namespace ringside
