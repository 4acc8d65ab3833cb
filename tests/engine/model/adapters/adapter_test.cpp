// LoRA adapters: the logits equal those of a model with merged weights, for every family, scale, sharding and device;
// any number of adapters in a step, each row as if alone (bit for bit if the device's summation order is fixed); caches
// are kept apart.
#include <gtest/gtest.h>

#include "cache/snapshot.h"
#include "tests/engine/model/adapters/made_adapter.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

constexpr RingWindow kAdapterWindow{4, 24, Eviction::kToken};
const char* const kDevices[] = {"cpu", "cuda_bf16", "cuda_f16", "cuda_bf16_fixed"};

/// In 16 bits, weights and adapter terms are rounded separately, merged weights once.
double MergedError(const Model& model, const std::vector<float>& got, const std::vector<float>& want) {
  const bool exact = model.backend().activation_dtype() == DType::kF32;
  return exact ? RelativeError(got, want) : NormError(got, want);
}
double Tolerance(DType type, double of_float32) {
  return type == DType::kF32 ? of_float32 : 6 * testing::Rounding(type);
}

std::unique_ptr<Model> LoadWith(const std::string& path, Backend& backend, std::span<const NamedAdapter> adapters) {
  auto model = Model::Load(path, backend);
  CHECK(model.ok());
  const Status loaded = (*model)->LoadAdapters(adapters);
  EXPECT_TRUE(loaded.ok()) << loaded.ToString();
  return std::move(*model);
}

/// The logits after each id, in chunks.
std::vector<float> RunUnder(Model& model, int adapter, std::span<const TokenId> ids, int64_t chunk) {
  OwnCache cache(model, kAdapterWindow, chunk, model.backend().activation_dtype());
  const auto vocab = static_cast<size_t>(model.spec().vocab);
  std::vector<float> out(ids.size() * vocab);
  for (size_t at = 0; at < ids.size(); at += static_cast<size_t>(chunk)) {
    const size_t count = std::min(static_cast<size_t>(chunk), ids.size() - at);
    const StepPart part{cache.get(), ids.subspan(at, count), StepPart::Logits::kAll, adapter};
    model.Forward({&part, 1}, std::span(out).subspan(at * vocab, count * vocab));
  }
  return out;
}

struct AdapterCase {
  const char* name;
  const char* model;
  AdapterTraits traits;
};
void PrintTo(const AdapterCase& c, std::ostream* out) { *out << c.name; }

const auto kNameOf = [](const auto& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::string(std::get<1>(info.param).name);
};

class MergedAdapter : public testing::DeviceTest,
                      public ::testing::WithParamInterface<std::tuple<const char*, AdapterCase>> {
 protected:
  void SetUp() override { Use(std::get<0>(GetParam())); }
};

INSTANTIATE_TEST_SUITE_P(
    All, MergedAdapter,
    ::testing::Combine(
        ::testing::ValuesIn(kDevices),
        ::testing::Values(
            AdapterCase{"llama", "llama", {}}, AdapterCase{"llama_by_root", "llama", {.by_root = true}},
            AdapterCase{"llama_queries_alone", "llama", {.rank = 1, .only = {"q_proj"}}},
            AdapterCase{"llama_by_pattern",
                        "llama",
                        {.ranks = {{"q_proj", 5}, {"layers.1.mlp.down_proj", 1}}, .alphas = {{"v_proj", 1.5}}}},
            AdapterCase{"llama_wide", "llama", {.rank = 70}}, AdapterCase{"biases", "llama_biases", {}},
            AdapterCase{"qwen3", "qwen3", {}}, AdapterCase{"transposed", "gpt2", {}},
            AdapterCase{"fused", "families/phi3", {}}, AdapterCase{"by_group", "families/gpt_neox", {}},
            AdapterCase{"norms_behind", "families/gemma2", {}}, AdapterCase{"parallel", "families/gptj", {}},
            AdapterCase{"own_norms", "families/stablelm_parallel", {}},
            AdapterCase{"mixture", "families/mixtral", {.only = {"q_proj", "k_proj", "v_proj", "o_proj"}}})),
    kNameOf);

TEST_P(MergedAdapter, HasTheReferenceLogits) {
  const AdapterCase& c = std::get<1>(GetParam());
  if (std::string(c.name) == "mixture" && type_ == DType::kBF16) GTEST_SKIP() << "near ties of its random router";
  const MadeAdapter adapter(c.model, c.traits);
  const NamedAdapter named{"a", adapter.path()};
  const auto model = LoadWith(GoldenFolder(c.model), *backend_, {&named, 1});
  const auto merged = LoadWith(adapter.merged(), *backend_, {});
  const std::vector<TokenId> ids = ScatteredIds(50, model->spec().vocab);
  const std::vector<float> want = RunUnder(*merged, 0, ids, 10), got = RunUnder(*model, 1, ids, 10);
  const double error = MergedError(*model, got, want), tolerance = Tolerance(type_, 2e-5);
  std::printf("%s %s: %.2e\n", std::get<0>(GetParam()), c.name, error);
  EXPECT_LT(error, tolerance);
  const std::vector<float> without = RunUnder(*model, 0, ids, 10);
  EXPECT_GT(MergedError(*model, without, want), std::max(1e-2, 2 * tolerance)) << "the adapter changes nothing";
  const auto plain = LoadWith(GoldenFolder(c.model), *backend_, {});
  EXPECT_TRUE(without == RunUnder(*plain, 0, ids, 10)) << "rows without an adapter are those of the model alone";
  const std::vector<float> single = RunUnder(*model, 1, ids, 1);
  EXPECT_LT(MergedError(*model, single, got), tolerance);
  if (testing::HasFixedOrder(std::get<0>(GetParam()))) {
    EXPECT_TRUE(single == got) << "a row depends on its chunk";
  }
}

class SixteenAdapters : public testing::DeviceTest,
                        public ::testing::WithParamInterface<std::tuple<const char*, AdapterCase>> {
 protected:
  void SetUp() override { Use(std::get<0>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(All, SixteenAdapters,
                         ::testing::Combine(::testing::ValuesIn(kDevices),
                                            ::testing::Values(AdapterCase{"llama", "llama", {}},
                                                              AdapterCase{"gguf", "llama/model.gguf", {}},
                                                              AdapterCase{"quantised", "gguf_q4_0/model.gguf", {}})),
                         kNameOf);

// Prompts in one step, then two tokens of each at a time; one conversation has no adapter, two have the same.
TEST_P(SixteenAdapters, BatchedRowsMatchSeparateRuns) {
  const std::string name = std::get<1>(GetParam()).model;
  std::vector<std::unique_ptr<MadeAdapter>> made;
  std::vector<NamedAdapter> named;
  for (uint32_t i = 1; i <= 16; ++i) {
    made.push_back(std::make_unique<MadeAdapter>("llama", AdapterTraits{.seed = i, .rank = 1 + i % 5}));
    named.push_back({"a" + std::to_string(i), name == "llama" ? made.back()->path() : made.back()->AsGguf(4, 2)});
  }
  const auto model = LoadWith(GoldenFolder(name), *backend_, named);
  const auto vocab = static_cast<size_t>(model->spec().vocab);
  const std::vector<int> adapters{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 16};
  constexpr size_t kPrompt = 9, kIds = 29;
  std::vector<OwnCache> caches;
  std::vector<std::vector<TokenId>> ids;
  std::vector<std::vector<float>> together(adapters.size());
  for (size_t i = 0; i < adapters.size(); ++i) {
    caches.emplace_back(*model, kAdapterWindow, kPrompt, type_);
    ids.push_back(ScatteredIds(kIds, 90, static_cast<uint32_t>(i % 3)));  // some have equal prompts
  }
  for (size_t at = 0; at < kIds;) {
    const size_t count = at == 0 ? kPrompt : 2;
    std::vector<StepPart> parts;
    for (size_t i = 0; i < adapters.size(); ++i) {
      parts.push_back({caches[i].get(), std::span(ids[i]).subspan(at, count), StepPart::Logits::kAll, adapters[i]});
    }
    std::vector<float> logits(adapters.size() * count * vocab);
    model->Forward(parts, logits);
    for (size_t i = 0; i < adapters.size(); ++i) {
      const auto begin = logits.begin() + static_cast<ptrdiff_t>(i * count * vocab);
      together[i].insert(together[i].end(), begin, begin + static_cast<ptrdiff_t>(count * vocab));
    }
    at += count;
  }
  for (size_t i = 0; i < adapters.size(); ++i) {
    const std::vector<float> alone = RunUnder(*model, adapters[i], ids[i], 3);
    EXPECT_LT(MergedError(*model, together[i], alone), Tolerance(type_, 1e-30)) << "adapter " << adapters[i];
    if (testing::HasFixedOrder(std::get<0>(GetParam()))) {
      EXPECT_TRUE(alone == together[i]) << adapters[i];
    }
  }
  EXPECT_GT(NormError(together[0], together[3]), 2 * Tolerance(type_, 1e-2)) << "the same words, another adapter";
}

TEST(Adapters, BothFormatsGiveTheSameAdapter) {
  const MadeAdapter adapter("llama", {});
  const auto backend = MakeTestBackend();
  const NamedAdapter peft{"a", adapter.path()}, gguf{"a", adapter.AsGguf(4, 2)};
  const auto folder = LoadWith(GoldenFolder("llama"), *backend, {&peft, 1});
  const auto file = LoadWith(GoldenFolder("llama/model.gguf"), *backend, {&gguf, 1});
  const std::vector<TokenId> ids = ScatteredIds(40, 90);
  EXPECT_LT(RelativeError(RunUnder(*file, 1, ids, 8), RunUnder(*folder, 1, ids, 8)), 1e-5);
}

class SharedAdapters : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, SharedAdapters, ::testing::Values("cpu", "cuda_bf16"),
                         [](const auto& info) { return std::string(info.param); });

// The ranks' and stages' shares of an adapter combine like those of the model.
TEST_P(SharedAdapters, EqualThoseOfOneDevice) {
  struct {
    const char* model;
    RankLayout layout;
  } const cases[] = {{"llama", {.tensor = 2}},
                     {"llama", {.tensor = 3}},
                     {"llama", {.tensor = 4}},
                     {"gpt2", {.tensor = 2}},
                     {"families/phi3", {.tensor = 2}},
                     {"families/gpt_neox", {.tensor = 2}},
                     {"llama", {.tensor = 1, .stages = 2}},
                     {"llama", {.tensor = 2, .stages = 2}}};
  const auto backend = testing::MakeDevice(GetParam());
  if (backend == nullptr) GTEST_SKIP() << "no " << GetParam() << " here";
  if (GetParam() != std::string("cpu") && CountCudaDevices() < 2) GTEST_SKIP() << "one GPU cannot be two ranks";
  for (const auto& [name, layout] : cases) {
    if (backend->activation_dtype() != DType::kF32 && (layout.ranks() > 2 || std::string(name) != "llama")) continue;
    SCOPED_TRACE(std::string(name) + " " + std::to_string(layout.tensor) + " " + std::to_string(layout.stages));
    const MadeAdapter one(name, {}), two(name, {.seed = 2, .rank = 5});
    const NamedAdapter named[] = {{"one", one.path()}, {"two", two.path()}};
    const auto whole = LoadWith(GoldenFolder(name), *backend, named);
    const auto ranks = testing::MakeTestRanks(GetParam(), layout);
    std::vector<Backend*> backends;
    for (const auto& rank : ranks) backends.push_back(rank.get());
    auto shared = Model::Load(GoldenFolder(name), backends, layout.stages);
    ASSERT_TRUE(shared.ok());
    ASSERT_TRUE((*shared)->LoadAdapters(named).ok());
    EXPECT_EQ((*shared)->adapter_fingerprints(), whole->adapter_fingerprints());
    const std::vector<TokenId> ids = ScatteredIds(40, 90);
    for (const int adapter : {0, 1, 2}) {
      const std::vector<float> want = RunUnder(*whole, adapter, ids, 20), got = RunUnder(**shared, adapter, ids, 20);
      const double tolerance = Tolerance(backend->activation_dtype(), layout.tensor == 1 ? 1e-30 : 1e-5);
      EXPECT_LT(MergedError(*whole, got, want), tolerance) << adapter;
    }
  }
}

TEST(Adapters, ChangeTheCacheFingerprint) {
  const MadeAdapter one("llama", {}), same("llama", {}), other("llama", {.seed = 2}), scaled("llama", {.alpha = 7});
  const auto backend = MakeTestBackend();
  const NamedAdapter named[] = {
      {"one", one.path()}, {"same", same.path()}, {"other", other.path()}, {"scaled", scaled.path()}};
  const auto model = LoadWith(GoldenFolder("llama"), *backend, named);
  const auto plain = LoadWith(GoldenFolder("llama"), *backend, {});
  EXPECT_EQ(model->fingerprint(), plain->fingerprint());
  EXPECT_EQ(model->shape().adapters, 4);
  EXPECT_GT(model->weight_bytes(), plain->weight_bytes());
  const std::vector<Fingerprint>& under = model->adapter_fingerprints();
  ASSERT_EQ(under.size(), 4u);
  EXPECT_EQ(under[0], under[1]) << "a name and a path change no number";
  for (const size_t i : {0, 2, 3}) {
    EXPECT_NE(under[i], model->fingerprint());
    for (const size_t j : {0, 2, 3}) EXPECT_EQ(under[i] == under[j], i == j);
  }
  OwnCache cache(*model, kAdapterWindow, 8), restored(*model, kAdapterWindow, 8);
  const std::vector<TokenId> ids = ScatteredIds(8, 90);
  const StepPart part{cache.get(), ids, StepPart::Logits::kNone, 1};
  model->Forward({&part, 1}, {});
  const Snapshot saved = Snapshot::Capture(*cache.get(), model->memory(), {under[0]}, ids, 0);
  EXPECT_FALSE(saved.Restore(*restored.get(), model->memory(), {model->fingerprint()}).ok());
  EXPECT_FALSE(saved.Restore(*restored.get(), model->memory(), {under[2]}).ok());
  EXPECT_TRUE(saved.Restore(*restored.get(), model->memory(), {under[1]}).ok());
}

}  // namespace
}  // namespace ringside
