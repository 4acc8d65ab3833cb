// Checkpoints of Megatron-LM and NeMo: gpt2's golden model, written by torch.save
// (tests/golden/make_megatron_golden.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/convert/convert.h"
#include "tests/engine/model/model_run.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Megatron : public ::testing::Test {
 protected:
  Megatron() { fs::create_directories(folder_); }
  ~Megatron() override { fs::remove_all(folder_); }

  std::vector<float> Logits(const std::string& path) {
    auto model = Model::Load(path, *backend_);
    OwnCache cache(**model, {0, 64, Eviction::kToken}, 16);
    return RunAll(**model, cache.get(), GoldenIds(), 16);
  }
  // The NeMo archive with a setting replaced by one of equal length.
  std::string Changed(const std::string& from, const std::string& to) {
    std::stringstream text;
    text << std::ifstream(GoldenFolder("megatron/gpt.nemo"), std::ios::binary).rdbuf();
    std::string bytes = text.str();
    CHECK_EQ(from.size(), to.size());
    bytes.replace(bytes.find(from), from.size(), to);
    std::ofstream(folder_ + "/m.nemo", std::ios::binary | std::ios::trunc) << bytes;
    return folder_ + "/m.nemo";
  }
  void ExpectRefused(const std::string& path, StatusCode code, const std::string& message) {
    const auto model = Model::Load(path, *backend_);
    EXPECT_EQ(model.status().code(), code) << model.status().ToString();
    EXPECT_THAT(model.status().message(), HasSubstr(message));
    EXPECT_THAT(model.status().message(), HasSubstr(folder_));
  }

  const std::string folder_ = ::testing::TempDir() + "megatron_" + std::to_string(::getpid());
  std::unique_ptr<Backend> backend_ = MakeTestBackend();
};

TEST_F(Megatron, LogitsEqualTheSafetensors) {
  const std::vector<float> want = Logits(GoldenFolder("gpt2"));
  for (const std::string path : {"megatron", "megatron/iter_0000100", "megatron/gpt.nemo"}) {
    EXPECT_TRUE(Logits(GoldenFolder(path)) == want) << path;
  }
}

TEST_F(Megatron, ReadsVersionOne) {
  const std::string rounded = folder_ + "/rounded";
  ASSERT_TRUE(Convert({.from = GoldenFolder("gpt2"), .to = rounded, .dtype = DType::kF16}).ok());
  EXPECT_TRUE(Logits(GoldenFolder("megatron/older")) == Logits(rounded));
}

TEST_F(Megatron, IsConverted) {
  const std::vector<float> want = Logits(GoldenFolder("gpt2"));
  for (const std::string path : {"megatron", "megatron/gpt.nemo"}) {
    const std::string to = folder_ + "/" + fs::path(path).stem().string();
    const Status status = Convert({.from = GoldenFolder(path), .to = to, .gpus = 2});
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(Logits(to) == want);
  }
}

TEST_F(Megatron, FindsATokenizer) {
  const TokenizerData own = (*Model::Load(GoldenFolder("megatron/gpt.nemo"), *backend_))->tokenizer_data();
  EXPECT_EQ(own.tokens.size(), 96u) << "that of the archive";
  EXPECT_EQ(own.tokens[94], "ab");
  EXPECT_THAT(own.end_of_turn, ::testing::ElementsAre(95));
  EXPECT_TRUE(MakeTokenizer(own).ok());
  fs::copy(GoldenFolder("megatron"), folder_, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  std::ofstream(folder_ + "/vocab.json") << R"({"a":0,"b":1,"ab":2,"<|endoftext|>":3})";
  std::ofstream(folder_ + "/merges.txt") << "#version: 0.2\na b\n";
  for (const std::string& path : {folder_, folder_ + "/gpt.nemo"}) {
    EXPECT_EQ((*Model::Load(path, *backend_))->tokenizer_data().tokens.size(), 4u) << path;
  }
}

TEST_F(Megatron, ErrorNamesTheProblem) {
  const auto invalid = StatusCode::kInvalidArgument, corruption = StatusCode::kCorruption;
  ExpectRefused(Changed("num_layers: 2\n", "num_layers: x\n"), invalid, "'num_layers' has the wrong type");
  ExpectRefused(Changed("num_layers: 2\n", "num_lawyers:2\n"), invalid, "'num_layers' is missing");
  ExpectRefused(Changed("num_layers: 2\n", "num_layers: 3\n"), corruption, "encoder.layers.2.input_layernorm.weight");
  ExpectRefused(Changed("num_layers: 2\n", "num_layers: 1\n"), corruption, "layers.1.input_layernorm.bias' is unknown");
  ExpectRefused(Changed("hidden_size: 32", "hidden_size: 64"), corruption, "has shape [96, 32], the settings require");
  ExpectRefused(Changed("learned_absolute", "rotary_positions"), invalid, "'position_embedding_type' = 'rotary_pos");
  ExpectRefused(Changed("activation: gelu", "activation: silu"), invalid, "'activation' = 'silu' is not supported");
  ExpectRefused(Changed("'layernorm'", "'rms_norms'"), invalid, "'normalization' = 'rms_norms' is not supported");
  ExpectRefused(Changed("tensor_model_parallel_size: 1", "tensor_model_parallel_size: 2"), corruption,
                "the checkpoint has files of 1 of 2 GPUs");
  ExpectRefused(Changed("./model_weights.ckpt", "./modul_weights.ckpt"), StatusCode::kNotFound, "is missing");
  ExpectRefused(Changed("{\"a\": 0", "[\"a\": 0"), invalid, "vocab.json is not JSON");
  std::ofstream(folder_ + "/m.nemo", std::ios::trunc) << "\x1f\x8b";
  ExpectRefused(folder_ + "/m.nemo", invalid, "compressed");
}

TEST_F(Megatron, RequiresEveryRank) {
  fs::copy(GoldenFolder("megatron"), folder_, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const std::string ranks = folder_ + "/iter_0000100";
  fs::remove_all(ranks + "/mp_rank_01");
  ExpectRefused(folder_, StatusCode::kCorruption, "the checkpoint has files of 1 of 2 GPUs");
  fs::create_directories(ranks + "/mp_rank_01");
  fs::create_symlink(GoldenFolder("megatron/iter_0000100/mp_rank_01/model_optim_rng.pt"),
                     ranks + "/mp_rank_01/model_optim_rng.pt");
  ExpectRefused(folder_, StatusCode::kInvalidArgument, "is a link to a place outside");
}

}  // namespace
}  // namespace ringside
