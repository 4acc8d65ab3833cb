// Refused adapter files: the error names the adapter and the fault, and the model is unchanged.
#include "engine/model/adapters/adapter_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/engine/files/gguf_file_writer.h"
#include "tests/engine/files/safetensors_file_writer.h"
#include "tests/engine/model/model_run.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;

const std::string kLayer = "base_model.model.model.layers.0.";
const std::string kQuery = kLayer + "self_attn.q_proj";

class AdapterFiles : public ::testing::Test {
 protected:
  AdapterFiles() { std::filesystem::create_directories(folder_); }
  ~AdapterFiles() override { std::filesystem::remove_all(folder_); }

  static std::vector<float> Values(int64_t count, float value = 0.25f) {
    return std::vector<float>(static_cast<size_t>(count), value);
  }
  /// A and B of the golden Llama's queries: 32 inputs, 64 outputs.
  static SafeTensorsFileWriter Sound(int64_t rank = 2, const std::string& module = kQuery) {
    SafeTensorsFileWriter writer;
    writer.Add(module + ".lora_A.weight", std::vector<int64_t>{rank, 32}, Values(rank * 32));
    writer.Add(module + ".lora_B.weight", std::vector<int64_t>{64, rank}, Values(64 * rank));
    return writer;
  }
  static std::string Config(const std::string& more = "", int64_t rank = 2) {
    return fmt::format(R"({{"peft_type": "LORA", "r": {}, "lora_alpha": 4{}{}}})", rank, more.empty() ? "" : ", ",
                       more);
  }
  Status LoadPeft(const std::string& config, const std::string& tensors) {
    std::ofstream(folder_ + "/adapter_config.json", std::ios::trunc) << config;
    std::ofstream(folder_ + "/adapter_model.safetensors", std::ios::binary | std::ios::trunc) << tensors;
    return Load(*model_, folder_);
  }
  Status LoadGguf(const std::string& bytes, Model& model) {
    const std::string path = folder_ + "/adapter.gguf";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return Load(model, path);
  }
  static Status Load(Model& model, const std::string& path) {
    const NamedAdapter adapter{"sql", path};
    return model.LoadAdapters({&adapter, 1});
  }
  void ExpectRefused(const Status& status, StatusCode code, const std::string& message) {
    EXPECT_EQ(status.code(), code) << message << ": " << status.ToString();
    for (const std::string& part : {message, std::string("adapter 'sql'"), folder_}) {
      EXPECT_THAT(status.message(), HasSubstr(part));
    }
    EXPECT_EQ(model_->shape().adapters, 0);
  }

  const std::string folder_ = ::testing::TempDir() + "adapter_files_" + std::to_string(::getpid());
  std::unique_ptr<Backend> backend_ = MakeTestBackend();
  std::unique_ptr<Model> model_ = std::move(Model::Load(GoldenFolder("llama"), *backend_).value());
};

constexpr auto kBad = StatusCode::kCorruption, kLacked = StatusCode::kInvalidArgument;

TEST_F(AdapterFiles, AcceptsValidFiles) {
  EXPECT_TRUE(LoadPeft(Config(), Sound().Finish()).ok());
  EXPECT_TRUE(
      LoadPeft(Config(R"("target_modules": ["q_proj"], "modules_to_save": [], "use_dora": false)"), Sound().Finish())
          .ok());
  EXPECT_TRUE(LoadPeft(Config(R"("target_modules": ".*_proj")"), Sound().Finish()).ok());
  EXPECT_EQ(model_->shape().adapters, 3);
}

TEST_F(AdapterFiles, RefusesInvalidSettings) {
  const auto refused = [&](const std::string& config, StatusCode code, const std::string& message) {
    ExpectRefused(LoadPeft(config, Sound().Finish()), code, message);
  };
  refused("", kBad, "adapter_config.json");
  refused("[]", kBad, "adapter_config.json");
  refused(R"({"peft_type": "IA3", "r": 2, "lora_alpha": 4})", kLacked, "'IA3'");
  refused(R"({"peft_type": "LORA", "lora_alpha": 4})", kBad, "lacks r");
  refused(R"({"peft_type": "LORA", "r": 2})", kBad, "lora_alpha");
  refused(Config("", 3), kBad, "rank 2, but adapter_config.json has 3");
  refused(Config(R"("rank_pattern": {"q_proj": 3})"), kBad, "has 3");
  refused(Config(R"("rank_pattern": {"q_proj": "2"})"), kBad, "no number for 'q_proj'");
  refused(Config(R"("alpha_pattern": {"(a+)+q_proj": 2})"), kLacked, "'(a+)+q_proj'");
  refused(Config(R"("alpha_pattern": {"q_proj": 2, "self_attn.q_proj": 3})"), kBad, "two entries of alpha_pattern");
  refused(Config(R"("alpha_pattern": {"q_proj": 1e300})"), kBad, "is scaled by");
  refused(Config(R"("use_dora": true)"), kLacked, "use_dora");
  refused(Config(R"("bias": "all")"), kLacked, "bias");
  refused(Config(R"("modules_to_save": ["lm_head"])"), kLacked, "modules_to_save");
  refused(Config(R"("alora_invocation_tokens": [1, 2])"), kLacked, "alora_invocation_tokens");
  refused(Config(R"("target_modules": ["q_proj", "v_proj"])"), kBad, "'v_proj', but no tensor adapts it");
  refused(Config(R"("target_modules": ["q_proj", 7])"), kBad, "not a string");
}

TEST_F(AdapterFiles, RefusesInvalidTensors) {
  const auto refused = [&](const SafeTensorsFileWriter& tensors, StatusCode code, const std::string& message,
                           int64_t rank = 2) {
    ExpectRefused(LoadPeft(Config("", rank), tensors.Finish()), code, message);
  };
  const auto pair = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b, float value = 1) {
    const auto count = [](const std::vector<int64_t>& shape) {
      int64_t product = 1;
      for (const int64_t size : shape) product *= size;
      return product;
    };
    SafeTensorsFileWriter writer;
    writer.Add(kQuery + ".lora_A.weight", a, Values(count(a), value));
    writer.Add(kQuery + ".lora_B.weight", b, Values(count(b)));
    return writer;
  };
  refused(SafeTensorsFileWriter(), kBad, "no adapter tensors");
  refused(pair({2, 31}, {64, 2}), kBad, "64 outputs and 31 inputs, the model's has 64 and 32");
  refused(pair({2, 32}, {63, 2}), kBad, "63 outputs");
  refused(pair({2, 32}, {64, 3}), kBad, "different ranks: 2 and 3");
  refused(pair({64}, {64, 2}), kBad, "is not a matrix");
  refused(pair({2, 32}, {64, 2, 1}), kBad, "is not a matrix");
  refused(pair({kMaxAdapterRank + 1, 32}, {64, kMaxAdapterRank + 1}), kBad, "has the rank 1025", 1025);
  refused(pair({2, 32}, {64, 2}, std::nanf("")), kBad, "not finite");
  refused(pair({2, 32}, {64, 2}, INFINITY), kBad, "not finite");
  refused(SafeTensorsFileWriter().Add(kQuery + ".lora_A.weight", std::vector<int64_t>{2, 32}, Values(64)), kBad,
          "'model.layers.0.self_attn.q_proj' has an A and no B");
  refused(Sound().Add("base_model.model.lm_head.weight", std::vector<int64_t>{1}, Values(1)), kLacked,
          "lm_head.weight' is not a LoRA matrix");
  refused(Sound().Add(kLayer + "mlp.gate_proj.lora_magnitude_vector", std::vector<int64_t>{1}, Values(1)), kLacked,
          "lora_magnitude_vector");
}

TEST_F(AdapterFiles, RefusesModulesTheModelLacks) {
  const auto refused = [&](const std::string& module, const std::string& message) {
    ExpectRefused(LoadPeft(Config(), Sound(2, "base_model.model." + module).Finish()), kLacked, message);
  };
  refused("model.layers.2.self_attn.q_proj", "the model has no module 'model.layers.2.self_attn.q_proj'");
  refused("model.layers.0.self_attn.qkv_proj", "no module 'model.layers.0.self_attn.qkv_proj'");
  refused("lm_head", "module 'lm_head' cannot be adapted");
  refused("model.embed_tokens", "cannot be adapted");
  refused("x", "no module 'x'");
  refused("..", "no module '..'");
  SafeTensorsFileWriter twice = Sound();
  const std::string again = "base_model.model.other.model.layers.0.self_attn.q_proj";
  twice.Add(again + ".lora_A.weight", std::vector<int64_t>{2, 32}, Values(64));
  twice.Add(again + ".lora_B.weight", std::vector<int64_t>{64, 2}, Values(128));
  ExpectRefused(LoadPeft(Config(), twice.Finish()), kBad, "under two names");
}

TEST_F(AdapterFiles, RefusesTruncatedFiles) {
  ExpectRefused(Load(*model_, folder_ + "/nothing"), StatusCode::kNotFound, "nothing");
  ExpectRefused(Load(*model_, folder_), StatusCode::kNotFound, "adapter_config.json");
  const std::string whole = Sound().Finish();
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    EXPECT_FALSE(LoadPeft(Config(), whole.substr(0, bytes)).ok()) << bytes;
  }
  EXPECT_FALSE(LoadPeft(Config(), whole + "x").ok());
  EXPECT_EQ(model_->shape().adapters, 0);
}

TEST_F(AdapterFiles, ReadsGgufFiles) {
  const auto model = std::move(Model::Load(GoldenFolder("llama/model.gguf"), *backend_).value());
  const auto file = [](const std::string& type, const std::string& kind, const std::string& architecture,
                       const std::string& tensor = "blk.0.attn_q.weight") {
    GgufFileWriter writer;
    writer.String("general.type", type).String("adapter.type", kind).String("general.architecture", architecture);
    writer.F32("adapter.lora.alpha", 4).Ones(tensor + ".lora_a", {32, 2}).Ones(tensor + ".lora_b", {2, 64});
    return writer;
  };
  const std::string whole = file("adapter", "lora", "llama").Finish();
  EXPECT_TRUE(LoadGguf(whole, *model).ok());
  ExpectRefused(LoadGguf(whole, *model_), kLacked, "is a GGUF file and the model a Hugging Face folder");
  ExpectRefused(LoadGguf(file("model", "lora", "llama").Finish(), *model), kLacked, "general.type is 'model'");
  ExpectRefused(LoadGguf(file("adapter", "control_vector", "llama").Finish(), *model), kLacked, "'control_vector'");
  ExpectRefused(LoadGguf(file("adapter", "lora", "qwen2").Finish(), *model), kLacked, "the architecture 'qwen2'");
  ExpectRefused(LoadGguf(file("adapter", "lora", "llama", "blk.7.attn_q.weight").Finish(), *model), kLacked,
                "no module 'blk.7.attn_q'");
  ExpectRefused(LoadGguf(file("adapter", "lora", "llama", "token_embd.weight").Finish(), *model), kLacked,
                "'token_embd' cannot be adapted");
  ExpectRefused(LoadGguf(file("adapter", "lora", "llama").Ones("blk.0.attn_q.weight", {1}).Finish(), *model), kLacked,
                "is not a LoRA matrix");
  const auto again = file("adapter", "lora", "llama").Ones("blk.0.attn_q.weight.lora_a", {32, 2});
  EXPECT_EQ(LoadGguf(again.Finish(), *model).code(), kBad);
  for (size_t bytes = 0; bytes < whole.size(); bytes += 11) {
    EXPECT_FALSE(LoadGguf(whole.substr(0, bytes), *model).ok()) << bytes;
  }
  EXPECT_EQ(model->shape().adapters, 1);
}

}  // namespace
}  // namespace ringside
