// Networks with an encoder (T5): tiny random models' logits against the reference implementation
// (tests/golden/make_encoder_golden.py), and the equalities that sessions rely on, bit for bit.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cache/snapshot.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

constexpr double kRoundings = 12;  // on a GPU: 6 for the encoder, and 6 for the decoder after it

std::string FolderOf(const std::string& name) { return GoldenFolder("encoders/" + name); }

/// As in make_encoder_golden.py.
std::vector<TokenId> Input() {
  std::vector<TokenId> ids = GoldenIds();
  ids.resize(30);
  ids.push_back(2);
  return ids;
}
std::vector<TokenId> Answer() {
  const std::vector<TokenId> ids = GoldenIds();
  std::vector<TokenId> answer = {3};
  answer.insert(answer.end(), ids.begin() + 5, ids.begin() + 29);
  return answer;
}

class EncoderModel : public testing::DeviceTest,
                     public ::testing::WithParamInterface<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    Use(std::get<0>(GetParam()));
    if (IsSkipped()) return;
    auto model = Model::Load(FolderOf(name_), *backend_);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = std::move(*model);
  }
  static RingWindow WindowOf(const std::vector<TokenId>& input, int64_t memory_len) {
    return {std::ssize(input), memory_len, Eviction::kToken};
  }
  void Encode(KvCache* cache, const std::vector<TokenId>& input) {
    const StepPart part{cache, input, StepPart::Logits::kNone};
    model_->Forward({&part, 1}, {});
  }
  /// The logits after each token of an answer to the input.
  std::vector<float> Run(const std::vector<TokenId>& input, const std::vector<TokenId>& answer, int64_t chunk,
                         int64_t memory_len = 64) {
    OwnCache cache(*model_, WindowOf(input, memory_len), 16, type_);
    Encode(cache.get(), input);
    return RunAll(*model_, cache.get(), answer, chunk);
  }
  /// Requires equal bits if the device has a fixed summation order.
  void ExpectSame(const std::vector<float>& got, const std::vector<float>& want, const char* what) const {
    if (testing::HasFixedOrder(std::get<0>(GetParam()))) {
      EXPECT_TRUE(got == want) << what;
    } else {
      EXPECT_LT(NormError(got, want), kRoundings * testing::Rounding(type_)) << what;
    }
  }

  const std::string name_ = std::get<1>(GetParam());
  std::unique_ptr<Model> model_;
};
INSTANTIATE_TEST_SUITE_P(All, EncoderModel,
                         ::testing::Combine(::testing::Values("cpu", "cuda_bf16", "cuda_f16", "cuda_bf16_fixed"),
                                            ::testing::Values("t5", "t5_gated", "mt5")),
                         [](const auto& info) { return std::get<0>(info.param) + "_" + std::get<1>(info.param); });

TEST_P(EncoderModel, LogitsEqualTheReference) {
  const std::vector<float> want = ReadFloats(FolderOf(name_) + "/logits.f32");
  ASSERT_EQ(want.size(), Answer().size() * static_cast<size_t>(model_->spec().vocab));
  for (const int64_t chunk : {1, 16}) {
    const std::vector<float> got = Run(Input(), Answer(), chunk);
    if (type_ == DType::kF32) {
      EXPECT_LT(RelativeError(got, want), 1e-4);
    } else {
      EXPECT_LT(NormError(got, want), kRoundings * testing::Rounding(type_));
    }
  }
}

TEST_P(EncoderModel, AnswersDependOnTheInputNotOnChunking) {
  const std::vector<TokenId> input = ScatteredIds(50, 96), answer = ScatteredIds(60, 96, 2);
  for (const int64_t memory_len : {24, 64}) {  // a ring that wraps, and one that does not
    const std::vector<float> want = Run(input, answer, 1, memory_len);
    for (const int64_t chunk : {7, 16}) ExpectSame(Run(input, answer, chunk, memory_len), want, "other chunks");
    std::vector<TokenId> other = input;
    other.back() ^= 1;
    EXPECT_FALSE(Run(other, answer, 16, memory_len) == want);
  }
}

// One step with an input to be encoded, and two answers that continue.
TEST_P(EncoderModel, BatchingDoesNotChangeTheResult) {
  const std::vector<TokenId> input = ScatteredIds(40, 96), other = ScatteredIds(21, 96, 3),
                             answer = ScatteredIds(30, 96, 2);
  const std::vector<float> alone = Run(input, answer, 1);
  OwnCache cache(*model_, WindowOf(input, 64), 16, type_), beside(*model_, WindowOf(input, 64), 16, type_);
  beside->Reset(WindowOf(other, 64));  // caches of a step have one shape
  Encode(cache.get(), input);
  const auto vocab = static_cast<size_t>(model_->spec().vocab);
  std::vector<float> together;
  for (size_t t = 0; t < answer.size(); t += 3) {
    const bool reads = t == 0;
    std::vector<float> logits((reads ? 3 : 4) * vocab);
    const StepPart parts[] = {{beside.get(), reads ? std::span(other) : std::span(answer).subspan(t, 3),
                               reads ? StepPart::Logits::kNone : StepPart::Logits::kLast},
                              {cache.get(), std::span(answer).subspan(t, 3), StepPart::Logits::kAll}};
    model_->Forward(parts, logits);
    together.insert(together.end(), logits.end() - static_cast<std::ptrdiff_t>(3 * vocab), logits.end());
  }
  ExpectSame(together, alone, "among others");
}

TEST_P(EncoderModel, ContinuesFromASavedCache) {
  const std::vector<TokenId> input = ScatteredIds(37, 96), answer = ScatteredIds(50, 96, 2),
                             more = ScatteredIds(6, 96, 4);
  OwnCache cache(*model_, WindowOf(input, 24), 10, type_), restored(*model_, WindowOf(input, 24), 10, type_);
  Encode(cache.get(), input);
  RunAll(*model_, cache.get(), answer, 10);
  std::vector<TokenId> all = input;
  all.insert(all.end(), answer.begin(), answer.end());
  Snapshot saved = Snapshot::Capture(*cache.get(), model_->memory(), {model_->fingerprint()}, all, 0);
  ASSERT_TRUE(saved.Restore(*restored.get(), model_->memory(), {model_->fingerprint()}).ok());
  ExpectSame(RunAll(*model_, restored.get(), more, 2), RunAll(*model_, cache.get(), more, 3), "a saved cache");
}

// A model that still loads must also run.
TEST_P(EncoderModel, FlippedConfigBitsAreHarmless) {
  if (type_ != DType::kF32) GTEST_SKIP() << "a file is read the same for every device";
  const std::string folder = ::testing::TempDir() + "encoder_" + name_ + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(FolderOf(name_) + "/model.safetensors", folder + "/model.safetensors");
  std::ifstream file(FolderOf(name_) + "/config.json");
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  int loaded = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 31) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(folder + "/config.json", std::ios::binary | std::ios::trunc) << damaged;
    auto model = Model::Load(folder, *backend_);
    if (!model.ok()) continue;
    ++loaded;
    model_ = std::move(*model);
    Run(ScatteredIds(9, model_->spec().vocab), ScatteredIds(5, model_->spec().vocab), 3);
  }
  EXPECT_GT(loaded, 0);
  std::filesystem::remove_all(folder);
}

// The network as llama.cpp's converter writes it.
TEST(EncoderGguf, LogitsEqualTheReference) {
  const auto backend = MakeTestBackend();
  const auto model = std::move(Model::Load(FolderOf("t5_gated/model.gguf"), *backend).value());
  const std::vector<TokenId> input = Input(), answer = Answer();
  OwnCache cache(*model, {std::ssize(input), 64, Eviction::kToken}, 16);
  const StepPart part{cache.get(), input, StepPart::Logits::kNone};
  model->Forward({&part, 1}, {});
  EXPECT_LT(RelativeError(RunAll(*model, cache.get(), answer, 16), ReadFloats(FolderOf("t5_gated/logits.f32"))), 1e-4);
}

TEST(EncoderModelRefusals, NameTheUnsupportedFeature) {
  const auto backend = MakeTestBackend();
  const NamedAdapter adapter{.name = "a", .path = "/nowhere"};
  EXPECT_NE(Model::Load(FolderOf("t5"), *backend)
                .value()
                ->LoadAdapters({&adapter, 1})
                .message()
                .find("adapters are not supported"),
            std::string::npos);
  const auto second = MakeTestBackend();
  Backend* const ranks[] = {backend.get(), second.get()};
  EXPECT_NE(Model::Load(FolderOf("t5"), ranks).status().message().find("an encoder, which ranks cannot share"),
            std::string::npos);
  EXPECT_NE(Model::Load(FolderOf("t5"), ranks, 2).status().message().find("an encoder, which stages cannot share"),
            std::string::npos);
}

// By the paper's formula, with its own sizes: distances up to 15 are separate, then eight buckets up to 128 for each
// direction of an encoder.
TEST(DistanceBiases, UseDistanceBuckets) {
  ModelSpec spec;
  spec.heads = 1, spec.bias_buckets = 32, spec.bias_reach = 128;
  std::vector<float> numbers(32);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const std::vector<float> decoder = spec.DistanceBiases(numbers, false), encoder = spec.DistanceBiases(numbers, true);
  ASSERT_EQ(decoder.size(), size_t{2 * 128 + 31});
  const auto of = [](const std::vector<float>& biases, int64_t distance) {
    return biases[static_cast<size_t>(128 + 15 - distance)];
  };
  for (const auto& [distance, bucket] :
       {std::pair{0, 0}, {1, 1}, {15, 15}, {16, 16}, {18, 16}, {19, 17}, {31, 21}, {64, 26}, {127, 31}, {143, 31}}) {
    EXPECT_EQ(of(decoder, distance), static_cast<float>(bucket)) << distance;
  }
  for (const auto& [distance, bucket] : {std::pair{0, 0},
                                         {7, 7},
                                         {8, 8},
                                         {11, 8},
                                         {12, 9},
                                         {16, 10},
                                         {127, 15},
                                         {-1, 17},
                                         {-7, 23},
                                         {-12, 25},
                                         {-143, 31}}) {
    EXPECT_EQ(of(encoder, distance), static_cast<float>(bucket)) << distance;
  }
}

}  // namespace
}  // namespace ringside
