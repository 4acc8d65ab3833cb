// Soft prompts: the logits equal the reference implementation's under prompts written by PEFT, for every family's
// embedding; several in a step, each row bit for bit as if alone; refused files.
#include "engine/model/adapters/soft_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "tests/engine/files/safetensors_file_writer.h"
#include "tests/engine/model/adapters/made_adapter.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;
constexpr RingWindow kAlike{6, 64, Eviction::kToken};  // shared by all parts of a step, so that their slabs are alike
constexpr auto kSoft = NamedAdapter::Kind::kSoftPrompt;

NamedAdapter Golden(const std::string& name) { return {name, GoldenFolder("soft_prompts/" + name), kSoft}; }

/// Virtual tokens, then the ids.
std::vector<TokenId> Behind(const Model& model, int adapter, std::span<const TokenId> ids) {
  std::vector<TokenId> all(static_cast<size_t>(model.virtual_tokens(adapter)));
  std::iota(all.begin(), all.end(), static_cast<TokenId>(model.spec().vocab));
  all.insert(all.end(), ids.begin(), ids.end());
  return all;
}

/// The logits after each of the ids, in chunks.
std::vector<float> RunBehind(Model& model, int adapter, std::span<const TokenId> ids, int64_t chunk) {
  const std::vector<TokenId> all = Behind(model, adapter, ids);
  const int64_t rows = model.virtual_tokens(adapter);
  OwnCache cache(model, kAlike, chunk, model.backend().activation_dtype());
  const auto vocab = static_cast<size_t>(model.spec().vocab);
  std::vector<float> out(all.size() * vocab);
  for (size_t at = 0; at < all.size(); at += static_cast<size_t>(chunk)) {
    const size_t count = std::min(static_cast<size_t>(chunk), all.size() - at);
    const StepPart part{cache.get(), std::span(all).subspan(at, count), StepPart::Logits::kAll, adapter};
    model.Forward({&part, 1}, std::span(out).subspan(at * vocab, count * vocab));
  }
  out.erase(out.begin(), out.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(rows) * vocab));
  return out;
}

struct PromptCase {
  const char *name, *model;
  int64_t tokens;
};

class ReferenceSoftPrompt : public testing::DeviceTest,
                            public ::testing::WithParamInterface<std::tuple<const char*, PromptCase>> {
 protected:
  void SetUp() override { Use(std::get<0>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(
    All, ReferenceSoftPrompt,
    ::testing::Combine(::testing::Values("cpu", "cuda_bf16", "cuda_f16", "cuda_bf16_fixed"),
                       ::testing::Values(PromptCase{"llama", "llama", 6}, PromptCase{"gpt2", "gpt2", 5},
                                         PromptCase{"bloom", "families/bloom", 3},
                                         PromptCase{"gemma2", "families/gemma2", 4},
                                         PromptCase{"granite", "families/granite", 7})),
    [](const auto& info) { return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name; });

TEST_P(ReferenceSoftPrompt, HasTheReferenceLogits) {
  const PromptCase& c = std::get<1>(GetParam());
  const auto model = std::move(Model::Load(GoldenFolder(c.model), *backend_).value());
  const NamedAdapter named = Golden(c.name);
  const Status loaded = model->LoadAdapters({&named, 1});
  ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  EXPECT_EQ(model->virtual_tokens(1), c.tokens);
  EXPECT_EQ(model->shape().max_virtual_tokens, c.tokens);
  const std::vector<TokenId> ids = GoldenIds();
  const std::vector<float> want = ReadFloats(named.path + "/logits.f32"), got = RunBehind(*model, 1, ids, 50);
  ASSERT_EQ(got.size(), want.size());
  const double tolerance = type_ == DType::kF32 ? 1e-4 : 6 * testing::Rounding(type_);
  const double error = NormError(got, want);
  EXPECT_LT(error, tolerance);
  const std::vector<float> single = RunBehind(*model, 1, ids, 1);
  EXPECT_LT(NormError(single, want), tolerance);
  if (testing::HasFixedOrder(std::get<0>(GetParam()))) {
    EXPECT_TRUE(single == got) << "a row depends on its chunk";
  }
  EXPECT_GT(NormError(RunBehind(*model, 0, ids, 50), want), std::max(1e-2, 2 * error)) << "it changes nothing";
}

TEST(SoftPrompts, MixedBatchMatchesSeparateRuns) {
  const auto backend = MakeTestBackend(2);
  const auto model = std::move(Model::Load(GoldenFolder("llama"), *backend).value());
  const MadeAdapter lora("llama", {});
  const std::string folder = ::testing::TempDir() + "soft_prompts_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  std::vector<float> values(2 * 32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  SafeTensorsFileWriter table;
  table.Add("any name", std::vector<int64_t>{2, 32}, values);
  std::ofstream(folder + "/table.safetensors", std::ios::binary) << table.Finish();
  const NamedAdapter named[] = {
      Golden("llama"), {"lora", lora.path()}, {"table", folder + "/table.safetensors", kSoft}};
  const Status loaded = model->LoadAdapters(named);
  ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  std::filesystem::remove_all(folder);
  EXPECT_EQ(model->virtual_tokens(2), 0);
  EXPECT_EQ(model->virtual_tokens(3), 2);
  const auto vocab = static_cast<size_t>(model->spec().vocab);
  const std::vector<TokenId> ids = ScatteredIds(20, 90);
  std::vector<OwnCache> caches;
  std::vector<std::vector<TokenId>> all;
  std::vector<StepPart> parts;
  size_t rows = 0;
  for (const int adapter : {0, 1, 2, 3, 1}) {
    caches.emplace_back(*model, kAlike, 40);
    all.push_back(Behind(*model, adapter, ids));
    rows += all.back().size();
  }
  const int adapters[] = {0, 1, 2, 3, 1};
  for (size_t i = 0; i < all.size(); ++i) {
    parts.push_back({caches[i].get(), all[i], StepPart::Logits::kAll, adapters[i]});
  }
  std::vector<float> logits(rows * vocab);
  model->Forward(parts, logits);
  auto at = logits.begin();
  for (size_t i = 0; i < all.size(); ++i) {
    at += static_cast<ptrdiff_t>((all[i].size() - ids.size()) * vocab);
    const std::vector<float> own(at, at + static_cast<ptrdiff_t>(ids.size() * vocab));
    at += static_cast<ptrdiff_t>(own.size());
    EXPECT_TRUE(own == RunBehind(*model, adapters[i], ids, 7)) << i;
  }
  const std::vector<Fingerprint>& prints = model->adapter_fingerprints();
  EXPECT_NE(prints[0], prints[2]);
  EXPECT_NE(prints[0], model->fingerprint());
}

TEST(SoftPrompts, WorkAcrossRanksAndStages) {
  for (const RankLayout layout : {RankLayout{.tensor = 2}, RankLayout{.tensor = 1, .stages = 2}}) {
    const auto ranks = testing::MakeTestRanks("cpu", layout);
    std::vector<Backend*> backends;
    for (const auto& rank : ranks) backends.push_back(rank.get());
    auto shared = Model::Load(GoldenFolder("llama"), backends, layout.stages);
    ASSERT_TRUE(shared.ok());
    const NamedAdapter named = Golden("llama");
    ASSERT_TRUE((*shared)->LoadAdapters({&named, 1}).ok());
    EXPECT_LT(RelativeError(RunBehind(**shared, 1, GoldenIds(), 50), ReadFloats(named.path + "/logits.f32")), 1e-4);
  }
}

class SoftPromptFiles : public ::testing::Test {
 protected:
  SoftPromptFiles() { std::filesystem::create_directories(folder_); }
  ~SoftPromptFiles() override { std::filesystem::remove_all(folder_); }

  static SafeTensorsFileWriter Table(int64_t rows, int64_t columns = 32, const std::string& name = "prompt_embeddings",
                                     float value = 0.5f) {
    SafeTensorsFileWriter writer;
    writer.Add(name, std::vector<int64_t>{rows, columns},
               std::vector<float>(static_cast<size_t>(rows * columns), value));
    return writer;
  }
  Status Load(const std::string& config, const std::string& tensors) {
    std::ofstream(folder_ + "/adapter_config.json", std::ios::trunc) << config;
    std::ofstream(folder_ + "/adapter_model.safetensors", std::ios::binary | std::ios::trunc) << tensors;
    const NamedAdapter named{"tone", folder_, kSoft};
    return model_->LoadAdapters({&named, 1});
  }
  void ExpectRefused(const Status& status, StatusCode code, const std::string& message) {
    EXPECT_EQ(status.code(), code) << message << ": " << status.ToString();
    for (const std::string& part : {message, std::string("adapter 'tone'"), folder_}) {
      EXPECT_THAT(status.message(), HasSubstr(part));
    }
    EXPECT_EQ(status.param(), "soft-prompt");
    EXPECT_EQ(model_->shape().adapters, 0);
  }

  const std::string folder_ = ::testing::TempDir() + "soft_prompt_files_" + std::to_string(::getpid());
  const std::string sound_ = R"({"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 4, "token_dim": 32})";
  std::unique_ptr<Backend> backend_ = MakeTestBackend();
  std::unique_ptr<Model> model_ = std::move(Model::Load(GoldenFolder("llama"), *backend_).value());
};

TEST_F(SoftPromptFiles, RefusesInvalidFiles) {
  constexpr auto kBad = StatusCode::kCorruption, kLacked = StatusCode::kInvalidArgument;
  const std::string sound = Table(4).Finish();
  SafeTensorsFileWriter two = Table(4);
  two.Add("word", std::vector<int64_t>{1, 1}, std::vector<float>{1});
  ExpectRefused(Load("[]", sound), kBad, "adapter_config.json");
  ExpectRefused(Load(R"({"peft_type": "PREFIX_TUNING"})", sound), kLacked, "'PREFIX_TUNING'");
  ExpectRefused(Load(R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})", sound), kLacked, "'LORA'");
  ExpectRefused(Load(R"({"peft_type": "P_TUNING", "num_transformer_submodules": 2})", sound), kLacked, "encoder");
  ExpectRefused(Load(R"({"peft_type": "P_TUNING", "num_virtual_tokens": 5})", sound), kBad, "4 by 32");
  ExpectRefused(Load(sound_, sound.substr(0, sound.size() - 1)), kBad, "adapter_model.safetensors");
  ExpectRefused(Load(sound_, Table(4, 32, "other").Finish()), kLacked, "'other'");
  ExpectRefused(Load(sound_, two.Finish()), kLacked, "'word'");
  ExpectRefused(Load(R"({"peft_type": "P_TUNING"})", Table(4, 16).Finish()), kBad, "16 values");
  ExpectRefused(Load(R"({"peft_type": "P_TUNING"})", Table(kMaxVirtualTokens + 1, 1).Finish()), kBad, "4097 rows");
  ExpectRefused(Load(sound_, Table(4, 32, "prompt_embeddings", NAN).Finish()), kBad, "not finite");
  EXPECT_TRUE(Load(sound_, sound).ok());
}

}  // namespace
}  // namespace ringside
