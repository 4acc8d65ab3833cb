// Every supported model family: a tiny random model's logits against the reference implementation
// (tests/golden/make_family_golden.py), and the equalities that sessions rely on, bit for bit: two turns equal one, in
// any chunks; batched equals alone; a restored cache continues like a resident one. Also with a wrapped ring, unless
// the family's positions end first.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cache/snapshot.h"
#include "engine/families/network_plan.h"
#include "tests/engine/model/family_names.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {
namespace {

constexpr RingWindow kTurning{4, 24, Eviction::kToken};

class FamilyModel : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto model = Model::Load(FamilyFolder(GetParam()), *backend_);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = std::move(*model);
  }
  std::vector<float> Run(const RingWindow& window, int64_t chunk, std::span<const TokenId> ids) {
    OwnCache cache(*model_, window, 16);
    return RunAll(*model_, cache.get(), ids, chunk);
  }

  std::unique_ptr<Backend> backend_ = MakeTestBackend();
  std::unique_ptr<Model> model_;
};
INSTANTIATE_TEST_SUITE_P(All, FamilyModel, ::testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(FamilyModel, LogitsEqualTheReference) {
  const std::vector<float> want = ReadFloats(FamilyFolder(GetParam()) + "/logits.f32");
  const std::vector<TokenId> ids = GoldenIds(want.size() / static_cast<size_t>(model_->spec().vocab));
  ASSERT_GE(ids.size(), 40U);
  for (const int64_t pinned : {0, 5}) {  // nothing is evicted: as if nothing were pinned
    const double error =
        RelativeError(Run({pinned, std::max<int64_t>(64, std::ssize(ids)), Eviction::kToken}, 16, ids), want);
    RecordProperty("relative_error", fmt::format("{:.1e}", error));
    EXPECT_LT(error, 1e-4) << pinned << " pinned";
  }
}

TEST_P(FamilyModel, ChunkSizeDoesNotChangeTheResult) {
  const std::vector<TokenId> ids = ScatteredIds(60, model_->spec().vocab);
  for (const RingWindow window : {kTurning, RingWindow{4, 64, Eviction::kToken}}) {
    const std::vector<float> want = Run(window, 1, ids);
    for (const int64_t chunk : {7, 16}) EXPECT_TRUE(Run(window, chunk, ids) == want) << "chunk " << chunk;
  }
}

TEST_P(FamilyModel, BatchingDoesNotChangeTheResult) {
  const std::vector<TokenId> ids = ScatteredIds(60, model_->spec().vocab), other = ScatteredIds(60, 90, 2);
  const std::vector<float> alone = Run(kTurning, 1, ids);
  OwnCache cache(*model_, kTurning, 16), beside(*model_, kTurning, 16);
  const auto vocab = static_cast<size_t>(model_->spec().vocab);
  std::vector<float> together;
  for (size_t t = 0; t < ids.size(); t += 3) {
    std::vector<float> logits(4 * vocab);
    const StepPart parts[] = {{beside.get(), std::span(other).subspan(t, 3), StepPart::Logits::kLast},
                              {cache.get(), std::span(ids).subspan(t, 3), StepPart::Logits::kAll}};
    model_->Forward(parts, logits);
    together.insert(together.end(), logits.begin() + static_cast<std::ptrdiff_t>(vocab), logits.end());
  }
  EXPECT_TRUE(together == alone);
}

TEST_P(FamilyModel, ContinuesFromASavedCache) {
  const std::vector<TokenId> ids = ScatteredIds(50, model_->spec().vocab), more = ScatteredIds(6, 90, 2);
  OwnCache cache(*model_, kTurning, 10), restored(*model_, kTurning, 10);
  RunAll(*model_, cache.get(), ids, 10);
  Snapshot saved = Snapshot::Capture(*cache.get(), model_->memory(), {model_->fingerprint()}, ids, 0);
  ASSERT_TRUE(saved.Restore(*restored.get(), model_->memory(), {model_->fingerprint()}).ok());
  EXPECT_TRUE(RunAll(*model_, restored.get(), more, 2) == RunAll(*model_, cache.get(), more, 3));
}

// A model that still loads must also run.
TEST_P(FamilyModel, FlippedConfigBitsAreHarmless) {
  const std::string folder = ::testing::TempDir() + "family_" + GetParam() + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(FamilyFolder(GetParam()) + "/model.safetensors", folder + "/model.safetensors");
  std::ifstream file(FamilyFolder(GetParam()) + "/config.json");
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  int loaded = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 127) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(folder + "/config.json", std::ios::binary | std::ios::trunc) << damaged;
    auto model = Model::Load(folder, *backend_);
    if (!model.ok()) continue;
    ++loaded;
    OwnCache cache(**model, {1, 4, Eviction::kToken}, 3);
    RunAll(**model, cache.get(), ScatteredIds(7, (*model)->spec().vocab), 3);
  }
  EXPECT_GT(loaded, 0) << "what nobody reads, say, does not matter";
  std::filesystem::remove_all(folder);
}

// The networks as llama.cpp's converters write them.
TEST(FamilyGguf, LogitsEqualTheReference) {
  const auto backend = MakeTestBackend();
  int files = 0;
  std::vector<std::string> families(std::begin(kFamilies), std::end(kFamilies));
  families.insert(families.end(), std::begin(kGgufFamilies), std::end(kGgufFamilies));
  for (const std::string& family : families) {
    const std::string path = FamilyFolder(family) + "/model.gguf";
    if (!std::filesystem::exists(path)) continue;
    ++files;
    auto model = Model::Load(path, *backend);
    EXPECT_TRUE(model.ok()) << family << ": " << model.status().ToString();
    if (!model.ok()) continue;
    const std::vector<float> want = ReadFloats(FamilyFolder(family) + "/logits.f32");
    const std::vector<TokenId> ids = GoldenIds(want.size() / static_cast<size_t>((*model)->spec().vocab));
    OwnCache cache(**model, {0, std::max<int64_t>(64, std::ssize(ids)), Eviction::kToken}, 16);
    EXPECT_LT(RelativeError(RunAll(**model, cache.get(), ids, 16), want), 1e-4) << family;
  }
  EXPECT_EQ(files, 61);
}

// Multi-head latent attention with block-quantized matrices, against the reference with their dequantized values: the
// difference is the rounding of activations to int8. With one matrix for keys and values, its key part is dequantized.
TEST(FamilyGguf, QuantisedLatentAttentionStaysNearTheReference) {
  const auto backend = MakeTestBackend();
  for (const char* name : {"deepseek_v3_q4_k", "deepseek_v3_q8_0"}) {
    auto model = Model::Load(FamilyFolder(name) + "/model.gguf", *backend);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    EXPECT_EQ((*model)->spec().latent.separate_parts, std::string_view(name).ends_with("q4_k"));
    OwnCache cache(**model, {0, 64, Eviction::kToken}, 16);
    const double error =
        RelativeError(RunAll(**model, cache.get(), GoldenIds(), 16), ReadFloats(FamilyFolder(name) + "/logits.f32"));
    RecordProperty(name, fmt::format("{:.1e}", error));
    EXPECT_LT(error, 0.05) << name;
    EXPECT_GT(error, 1e-6) << name << " is quantized";
  }
}

// A device with quantized weights refuses unsupported operations; it never computes something else.
class Quantising : public ForwardingBackend {
 public:
  Quantising() : ForwardingBackend(MakeTestBackend()) {}
  DType weight_dtype() const override { return DType::kI8; }
};

TEST(FamilyNeeds, RefusesQuantisedExperts) {
  Quantising backend;
  const auto refused = Model::Load(FamilyFolder("mixtral"), backend);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("the model has a mixture of experts"), std::string::npos)
      << refused.status().ToString();
  EXPECT_TRUE(Model::Load(FamilyFolder("mistral_window"), backend).ok());
}

// The parts of a wrapper's file that are not text are skipped and reported.
TEST(FamilyWrappers, ReportTheSkippedTensors) {
  const auto backend = MakeTestBackend();
  ::testing::internal::CaptureStderr();
  const auto model = Model::Load(FamilyFolder("mistral3"), *backend);
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_NE(log.find("the model 'mistral3' is used for text; not loaded: multi_modal_projector.* (4 tensors), "
                     "vision_tower.* ("),
            std::string::npos)
      << log;
  EXPECT_EQ((*model)->spec().architecture, "mistral");
}

}  // namespace
}  // namespace ringside
