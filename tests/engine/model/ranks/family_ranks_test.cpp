// Every family shared by tensor-parallel ranks and by stages: the logits equal one device's (the bits, in stages), in
// any chunks; a cache saved by some ranks continues on others, recurrent states included; ranks of other processes
// compute the same bits; what cannot be shared is refused by name.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "cache/snapshot.h"
#include "tests/engine/files/gguf_file_writer.h"
#include "tests/engine/model/family_names.h"
#include "tests/engine/model/model_run.h"
#include "tests/engine/model/ranks/thread_processes.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

constexpr RingWindow kWrapping{4, 24, Eviction::kToken}, kUnwrapped{4, 256, Eviction::kToken};
constexpr int64_t kStepRows = 100;  // rows of a step

struct SharedModel {
  SharedModel(const std::string& path, const RankLayout& layout, const std::string& device = "cpu")
      : backends(testing::MakeTestRanks(device, layout)) {
    std::vector<Backend*> all;
    for (const auto& backend : backends) all.push_back(backend.get());
    auto loaded = Model::Load(path, all, layout.stages);
    status = loaded.status();
    if (loaded.ok()) model = std::move(*loaded);
  }
  std::vector<float> Run(const RingWindow& window, int64_t chunk, std::span<const TokenId> ids) const {
    OwnCache cache(*model, window, std::max<int64_t>(chunk, 16));
    return RunAll(*model, cache.get(), ids, chunk);
  }

  std::vector<std::unique_ptr<Backend>> backends;
  Status status = Status::Ok();
  std::unique_ptr<Model> model;
};

/// More than two chunks of recurrent state.
std::vector<TokenId> ManyIds(const ModelSpec& spec) { return ScatteredIds(spec.recurrent() ? 150 : 60, spec.vocab); }
RingWindow WindowFor(const ModelSpec& spec) { return spec.recurrent() ? kUnwrapped : kWrapping; }

class FamilyRanks : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ASSERT_TRUE(alone_.status.ok()) << alone_.status.ToString(); }
  const ModelSpec& spec() const { return alone_.model->spec(); }

  const std::string path_ = FamilyFolder(GetParam());
  const SharedModel alone_{path_, {}};
};
INSTANTIATE_TEST_SUITE_P(All, FamilyRanks, ::testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(info.param); });

/// The trait for which ranks refuse the model, or "".
std::string UnsharedTrait(const ModelSpec& spec) {
  if (std::ranges::any_of(spec.layer_traits, &LayerTraits::sparse)) return "sparse activations";
  if (std::ranges::any_of(spec.layer_traits, &LayerTraits::attends)) return "attention beside a recurrence";
  if (spec.expert_inputs > 0) return "projected inputs of experts";
  return spec.factors.any() ? "factors of its layers' parts" : "";
}

// Four ranks share the two key/value heads of most families. Any chunks give the same bits. Single tokens only on two
// ranks: on a machine with fewer cores than ranks, these wait for each other's time slices.
TEST_P(FamilyRanks, HaveTheLogitsOfOneRank) {
  const std::vector<TokenId> ids = ManyIds(spec());
  const std::vector<float> want = alone_.Run(WindowFor(spec()), kStepRows, ids);
  for (const int ranks : {2, 4}) {
    const SharedModel shared(path_, {.tensor = ranks});
    if (const std::string trait = UnsharedTrait(spec()); !trait.empty()) {
      EXPECT_NE(shared.status.message().find("the model has " + trait + ", which ranks cannot share"),
                std::string::npos)
          << shared.status.ToString();
      continue;
    }
    if (ranks == 4 && !shared.status.ok()) {  // two recurrent heads, groups with a norm, or heads of a layer
      EXPECT_TRUE(shared.status.message().ends_with(" of a layer cannot be shared by 4 ranks"))
          << shared.status.ToString();
      continue;
    }
    ASSERT_TRUE(shared.status.ok()) << shared.status.ToString();
    EXPECT_EQ(shared.model->fingerprint(), alone_.model->fingerprint());
    const std::vector<float> got = shared.Run(WindowFor(spec()), kStepRows, ids);
    const double error = RelativeError(got, want);
    EXPECT_LT(error, 1e-5) << ranks << " ranks";
    for (const int64_t chunk : ranks == 2 ? std::vector<int64_t>{1, 13} : std::vector<int64_t>{13}) {
      EXPECT_TRUE(shared.Run(WindowFor(spec()), chunk, ids) == got) << ranks << " ranks, chunk " << chunk;
    }
  }
}

TEST_P(FamilyRanks, IsTheSameInStages) {
  const SharedModel shared(path_, {.stages = 2});
  if (spec().layer_inputs > 0) {
    EXPECT_NE(shared.status.message().find("the model has per-layer embeddings, which stages cannot share"),
              std::string::npos)
        << shared.status.ToString();
    return;
  }
  ASSERT_TRUE(shared.status.ok()) << shared.status.ToString();
  const std::vector<TokenId> ids = ManyIds(spec());
  const std::vector<float> want = alone_.Run(WindowFor(spec()), kStepRows, ids);
  for (const int64_t chunk : {int64_t{16}, kStepRows}) {
    EXPECT_TRUE(shared.Run(WindowFor(spec()), chunk, ids) == want) << "chunk " << chunk;
  }
}

/// Families of all traits that change a slab's division.
class FamilyRankCaches : public FamilyRanks {};
INSTANTIATE_TEST_SUITE_P(Some, FamilyRankCaches,
                         ::testing::Values("mixtral", "gpt_oss", "olmo2", "qwen3_next", "qwen3_5_moe", "lfm2_moe",
                                           "granitemoehybrid", "nemotron_h", "kimi_linear", "deepseek_v3", "gemma4_moe",
                                           "laguna"),
                         [](const auto& info) { return std::string(info.param); });

// Also after a copy on the devices, as of a fork. Between equal numbers of ranks the bits are equal.
TEST_P(FamilyRankCaches, ContinueOnOtherRanks) {
  const std::vector<TokenId> all = ManyIds(spec()), ids(all.begin(), all.end() - 10), more(all.end() - 10, all.end());
  const RankLayout layouts[] = {{}, {.tensor = 2}, {.tensor = 4}, {.tensor = 2, .stages = 2}};
  for (const RankLayout& from : layouts) {
    const SharedModel first(path_, from);
    if (!first.status.ok()) continue;
    Model& model = *first.model;
    OwnCache cache(model, WindowFor(spec()), kStepRows);
    RunAll(model, cache.get(), ids, kStepRows);
    Snapshot saved = Snapshot::Capture(*cache.get(), model.memory(), {model.fingerprint()}, ids, 0);
    OwnCache copy(model, WindowFor(spec()), kStepRows);
    model.memory().CopyOnDevice(
        copy->slab(), cache->slab(),
        static_cast<size_t>(cache->shape().HeldBytes(cache->ring().next(), cache->ring().window().pinned)));
    copy->Adopt(*cache.get(), cache->ring().next());
    const std::vector<float> want = RunAll(model, cache.get(), more, 3);
    EXPECT_TRUE(RunAll(model, copy.get(), more, 10) == want) << "a fork";
    for (const RankLayout& to : layouts) {
      const SharedModel second(path_, to);
      if (!second.status.ok()) continue;
      OwnCache restored(*second.model, WindowFor(spec()), kStepRows);
      ASSERT_TRUE(saved.Restore(*restored.get(), second.model->memory(), {second.model->fingerprint()}).ok());
      const std::vector<float> got = RunAll(*second.model, restored.get(), more, 10);
      const std::string what = std::to_string(from.tensor) + "x" + std::to_string(from.stages) + " to " +
                               std::to_string(to.tensor) + "x" + std::to_string(to.stages);
      EXPECT_LT(RelativeError(got, want), 1e-5) << what;
      EXPECT_TRUE(from.tensor != to.tensor || got == want) << what;
    }
  }
}

// All families that one GPU computes. In float16, because routers of random mixtures have near-ties in bfloat16. A
// fault would cost far more than these roundings.
TEST(DeviceFamilyRanks, MatchTheReferenceLogits) {
  if (CountCudaDevices() < 2) GTEST_SKIP() << "one GPU cannot be two ranks";
  const auto backend = testing::MakeDevice("cuda_f16");
  const double tolerance = 10 * testing::Rounding(DType::kF16);
  int shared_families = 0;
  for (const std::string family : kFamilies) {
    const std::string path = FamilyFolder(family);
    auto alone = Model::Load(path, *backend);
    if (!alone.ok()) continue;
    const auto error_of = [&](Model& model, int64_t chunk) {
      const std::vector<float> want = ReadFloats(path + "/logits.f32");
      const std::vector<TokenId> ids = GoldenIds(want.size() / static_cast<size_t>(model.spec().vocab));
      OwnCache cache(model, {0, std::max<int64_t>(64, std::ssize(ids)), Eviction::kToken}, 16, DType::kF16);
      return NormError(RunAll(model, cache.get(), ids, chunk), want);
    };
    const double least = error_of(**alone, 16);
    for (const RankLayout layout : {RankLayout{.tensor = 2}, RankLayout{.stages = 2}}) {
      const SharedModel shared(path, layout, "cuda_f16");
      if (!shared.status.ok()) {
        std::printf("%s: %s\n", family.c_str(), shared.status.ToString().c_str());
        continue;
      }
      ++shared_families;
      for (const int64_t chunk : {16, 1}) {
        const double error = error_of(*shared.model, chunk);
        std::printf("%s, %d ranks, %d stages: %.2e in chunks of %d, alone %.2e\n", family.c_str(), layout.tensor,
                    layout.stages, error, static_cast<int>(chunk), least);
        EXPECT_LT(error, least + tolerance) << family;
      }
    }
  }
  EXPECT_GT(shared_families, 30);
}

/// A model whose ranks are threads of this process, or of others with one rank each.
struct ProcessModel {
  ProcessModel(const std::string& path, const RankLayout& layout)
      : processes(testing::ThreadProcesses::Make(layout.ranks())) {
    for (int i = 1; i < layout.ranks(); ++i) {
      followers.emplace_back([this, path, layout, i] {
        const auto backend = MakeBackend(i, layout);
        Backend* const own = backend.get();
        const Status followed =
            Model::Follow(path, {&own, 1}, layout.stages, LoadFormat::kAuto, *processes[static_cast<size_t>(i)]);
        EXPECT_TRUE(followed.ok()) << followed.ToString();
      });
    }
    first = MakeBackend(0, layout);
    Backend* const own = first.get();
    auto loaded = Model::Load(path, {&own, 1}, layout.stages, LoadFormat::kAuto, *processes.front());
    EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
    if (loaded.ok()) model = std::move(*loaded);
  }
  ~ProcessModel() {
    model.reset();
    for (std::thread& follower : followers) follower.join();
  }
  std::unique_ptr<Backend> MakeBackend(int process, const RankLayout& layout) {
    auto comms = processes[static_cast<size_t>(process)]->MakeComms(0, layout, std::chrono::minutes(2));
    return std::move(MakeCpuBackend({.threads = 1}, std::move(comms.front())).value());
  }

  std::vector<std::unique_ptr<Processes>> processes;
  std::unique_ptr<Backend> first;
  std::unique_ptr<Model> model;
  std::vector<std::thread> followers;
};

TEST(FamilyProcesses, HaveTheBitsOfRanksInOneProcess) {
  const std::pair<const char*, RankLayout> cases[] = {{"mixtral", {.tensor = 2}},
                                                      {"qwen3_next", {.tensor = 2}},
                                                      {"qwen3_next", {.stages = 2}},
                                                      {"kimi_linear", {.tensor = 2}},
                                                      {"nemotron_h", {.tensor = 2, .stages = 2}},
                                                      {"lfm2", {.stages = 2}},
                                                      {"deepseek_v3", {.tensor = 2}},
                                                      {"gemma4_moe", {.tensor = 2}}};
  for (const auto& [name, layout] : cases) {
    const SharedModel threads(FamilyFolder(name), layout);
    const ProcessModel others(FamilyFolder(name), layout);
    ASSERT_TRUE(threads.model && others.model) << name;
    const ModelSpec& spec = threads.model->spec();
    const std::vector<TokenId> all = ManyIds(spec), ids(all.begin(), all.end() - 10), more(all.end() - 10, all.end());
    OwnCache want(*threads.model, WindowFor(spec), kStepRows), got(*others.model, WindowFor(spec), kStepRows);
    EXPECT_TRUE(RunAll(*threads.model, want.get(), ids, kStepRows) == RunAll(*others.model, got.get(), ids, kStepRows))
        << name;
    Snapshot saved = Snapshot::Capture(*got.get(), others.model->memory(), {others.model->fingerprint()}, ids, 0);
    OwnCache restored(*others.model, WindowFor(spec), kStepRows);
    ASSERT_TRUE(saved.Restore(*restored.get(), others.model->memory(), {others.model->fingerprint()}).ok());
    EXPECT_TRUE(RunAll(*others.model, restored.get(), more, 10) == RunAll(*threads.model, want.get(), more, 10))
        << name;
  }
}

// As llama.cpp's converters write them: value heads in another order, joint experts.
TEST(FamilyGgufRanks, HaveTheLogitsOfOneRank) {
  for (const std::string family : kFamilies) {
    const std::string path = FamilyFolder(family) + "/model.gguf";
    if (!std::filesystem::exists(path)) continue;
    const SharedModel alone(path, {}), shared(path, {.tensor = 2});
    ASSERT_TRUE(alone.status.ok()) << family << ": " << alone.status.ToString();
    const ModelSpec& spec = alone.model->spec();
    if (!UnsharedTrait(spec).empty()) continue;
    ASSERT_TRUE(shared.status.ok()) << family << ": " << shared.status.ToString();
    const std::vector<TokenId> ids = ManyIds(spec);
    EXPECT_LT(RelativeError(shared.Run(WindowFor(spec), 50, ids), alone.Run(WindowFor(spec), 50, ids)), 1e-5) << family;
  }
}

/// A mixture of four experts whose matrices are stored as Q8_0, in blocks of 32 values.
std::string QuantisedMixture(uint32_t expert_width) {
  constexpr uint64_t kHidden = 64, kVocab = 96, kHeads = 4, kHead = 16;
  const uint64_t width = expert_width;
  GgufFileWriter writer;
  uint32_t state = 1;
  const auto matrix = [&](const std::string& name, const std::vector<uint64_t>& dimensions) {
    uint64_t blocks = 1;
    for (const uint64_t size : dimensions) blocks *= size;
    std::string data;
    for (blocks /= 32; blocks > 0; --blocks) {
      data += GgufFileWriter::Bytes(uint16_t{0x1800});  // 2^-9
      for (int i = 0; i < 32; ++i) {
        state = state * 1664525u + 1013904223u;
        data += static_cast<char>(static_cast<int>(state >> 24) - 128);
      }
    }
    writer.Tensor(name, dimensions, 8, data);
  };
  writer.String("general.architecture", "qwen3moe");
  writer.F32("qwen3moe.attention.layer_norm_rms_epsilon", 1e-6f);
  for (const auto& [key, value] : {std::pair<const char*, uint32_t>{"block_count", 2},
                                   {"context_length", 256},
                                   {"embedding_length", kHidden},
                                   {"feed_forward_length", 128},
                                   {"expert_feed_forward_length", expert_width},
                                   {"expert_count", 4},
                                   {"expert_used_count", 2},
                                   {"attention.head_count", kHeads},
                                   {"attention.head_count_kv", 2},
                                   {"attention.key_length", kHead},
                                   {"attention.value_length", kHead}}) {
    writer.U32(std::string("qwen3moe.") + key, value);
  }
  matrix("token_embd.weight", {kHidden, kVocab});
  writer.Ones("output_norm.weight", {kHidden});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (const char* name : {"attn_norm.weight", "ffn_norm.weight"}) writer.Ones(layer + name, {kHidden});
    for (const char* name : {"attn_q_norm.weight", "attn_k_norm.weight"}) writer.Ones(layer + name, {kHead});
    matrix(layer + "attn_q.weight", {kHidden, kHeads * kHead});
    matrix(layer + "attn_k.weight", {kHidden, 2 * kHead});
    matrix(layer + "attn_v.weight", {kHidden, 2 * kHead});
    matrix(layer + "attn_output.weight", {kHeads * kHead, kHidden});
    matrix(layer + "ffn_gate_inp.weight", {kHidden, 4});
    matrix(layer + "ffn_gate_exps.weight", {kHidden, width, 4});
    matrix(layer + "ffn_up_exps.weight", {kHidden, width, 4});
    matrix(layer + "ffn_down_exps.weight", {width, kHidden, 4});
  }
  const std::string path = ::testing::TempDir() + "mixture_" + std::to_string(::getpid()) + ".gguf";
  std::ofstream(path, std::ios::binary) << writer.Finish();
  return path;
}

// Experts are divided at block borders, unevenly if there are too few blocks. Activations are rounded to int8: where
// the sum of two ranks rounds to another number, the logits from there on differ by more than the order of the sums.
TEST(QuantisedMixtureRanks, HaveTheLogitsOfOneRank) {
  for (const uint32_t width : {128u, 96u}) {
    const std::string path = QuantisedMixture(width);
    const SharedModel alone(path, {}), shared(path, {.tensor = 2}), four(path, {.tensor = 4});
    std::filesystem::remove(path);
    ASSERT_TRUE(alone.status.ok() && shared.status.ok()) << alone.status.ToString() << shared.status.ToString();
    const std::vector<TokenId> ids = ScatteredIds(60, 96);
    const std::vector<float> want = alone.Run(kWrapping, 16, ids), got = shared.Run(kWrapping, 16, ids);
    int equal = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto row = [&](const std::vector<float>& logits) { return std::span(logits).subspan(i * 96, 96); };
      equal += RelativeError(row(got), row(want)) < 1e-5 ? 1 : 0;
    }
    EXPECT_GT(equal, 30) << width;
    EXPECT_LT(NormError(got, want), 1e-3) << width;
    EXPECT_TRUE(shared.Run(kWrapping, 1, ids) == got) << width;
    EXPECT_NE(four.status.message().find("in blocks of 32 values, and cannot be shared by 4 ranks"), std::string::npos)
        << four.status.ToString();  // the heads' 64 values
  }
}

}  // namespace
}  // namespace ringside
