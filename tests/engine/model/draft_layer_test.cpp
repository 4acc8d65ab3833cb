// Draft layers (multi-token prediction): the drafted tokens equal those of a reference in float64 (see
// tests/golden/make_draft_golden.py), and answers with drafts equal those without, bit for bit.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/model/model_facts.h"
#include "tests/engine/model/drafted_answers.h"

namespace ringside {
namespace {

constexpr const char* kDrafting[] = {"qwen3_5_text", "qwen3_5_moe_text", "glm4_moe", "deepseek_v3"};

class DraftingModels : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr RingWindow kWindow{4, 60, Eviction::kTurn};

  std::string folder() const { return GoldenFolder(std::string("drafts/") + GetParam()); }
  std::unique_ptr<Model> Load(DraftLayer draft = DraftLayer::kPlan, Backend* device = nullptr) {
    Backend* const only = device != nullptr ? device : backend_.get();
    auto model = Model::Load(folder(), {&only, 1}, 1, LoadFormat::kAuto, draft);
    CHECK(model.ok());
    return std::move(*model);
  }
  /// Prompt and drafted tokens.
  std::vector<std::pair<std::vector<TokenId>, std::vector<TokenId>>> Cases() const {
    std::vector<std::pair<std::vector<TokenId>, std::vector<TokenId>>> cases;
    std::ifstream lines(folder() + "/drafts.json");
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      cases.emplace_back(json["prompt"].get<std::vector<TokenId>>(), json["drafted"].get<std::vector<TokenId>>());
    }
    return cases;
  }
  /// Appends tokens in chunks.
  static void Append(Model& model, std::span<const TokenId> tokens, int64_t chunk, KvCache* cache) {
    for (size_t begin = 0; begin < tokens.size(); begin += static_cast<size_t>(chunk)) {
      const size_t rows = std::min(static_cast<size_t>(chunk), tokens.size() - begin);
      const StepPart part{cache, tokens.subspan(begin, rows), StepPart::Logits::kNone};
      model.Forward({&part, 1}, {});
    }
  }

  const std::unique_ptr<Backend> backend_ = MakeTestBackend(2);
};

INSTANTIATE_TEST_SUITE_P(Families, DraftingModels, ::testing::ValuesIn(kDrafting),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(DraftingModels, CountTheDraftLayerAmongTheirWeights) {
  const auto without = ReadModelFacts(folder(), *backend_),
             with = ReadModelFacts(folder(), *backend_, DraftLayer::kPlan);
  ASSERT_TRUE(without.ok() && with.ok());
  EXPECT_EQ(without->spec.draft_layers, 0);
  EXPECT_EQ(with->spec.draft_layers, 1);
  // At least the projection of the token and the state before it, in 16 bits.
  EXPECT_GE(with->weight_bytes - without->weight_bytes, 4 * with->spec.hidden * with->spec.hidden);
}

TEST_P(DraftingModels, DraftLikeTheReference) {
  const std::unique_ptr<Model> model = Load();
  ASSERT_TRUE(model->has_draft_layer());
  for (const auto& [prompt, drafted] : Cases()) {
    for (const int64_t chunk : {1, 3, 64}) {
      OwnCache cache(*model, kWindow, 64);
      Append(*model, std::span(prompt).first(prompt.size() - 1), chunk, cache.get());
      const DraftPart part{cache.get(), prompt.back(), std::ssize(drafted)};
      EXPECT_EQ(model->Draft({&part, 1}).front(), drafted) << prompt.size() << " tokens by " << chunk;
    }
  }
}

TEST_P(DraftingModels, DraftForSeveralSequencesAtOnce) {
  const std::unique_ptr<Model> model = Load();
  const auto cases = Cases();
  std::vector<std::unique_ptr<OwnCache>> caches;
  std::vector<StepPart> steps;
  std::vector<DraftPart> parts;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& prompt = cases[i].first;
    caches.push_back(std::make_unique<OwnCache>(*model, kWindow, 64));
    steps.push_back({caches.back()->get(), std::span(prompt).first(prompt.size() - 1), StepPart::Logits::kNone});
    parts.push_back({caches.back()->get(), prompt.back(), static_cast<int64_t>(1 + i)});
  }
  model->Forward(steps, {});
  const auto drafted = model->Draft(parts);
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& expected = cases[i].second;
    EXPECT_EQ(drafted[i], std::vector(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(1 + i)));
  }
}

// Rounding to 16 bits may change a choice between tokens of nearly the same probability.
TEST_P(DraftingModels, DraftOnADeviceAsOnTheCpu) {
  if (CountCudaDevices() == 0) GTEST_SKIP() << "no GPU";
  const auto device = std::move(MakeCudaBackend({.dtype = DType::kF16}).value());
  const std::unique_ptr<Model> model = Load(DraftLayer::kPlan, device.get());
  int64_t equal = 0, all = 0;
  for (const auto& [prompt, drafted] : Cases()) {
    for (const int64_t chunk : {1, 3, 64}) {
      OwnCache cache(*model, kWindow, 64, DType::kF16);
      Append(*model, std::span(prompt).first(prompt.size() - 1), chunk, cache.get());
      const DraftPart part{cache.get(), prompt.back(), std::ssize(drafted)};
      const std::vector<TokenId> tokens = model->Draft({&part, 1}).front();
      ASSERT_EQ(tokens.size(), drafted.size());
      all += std::ssize(drafted);
      for (size_t i = 0; i < drafted.size() && tokens[i] == drafted[i]; ++i) ++equal;
    }
  }
  EXPECT_GE(equal, all * 9 / 10);
}

TEST_P(DraftingModels, AnswersEqualThoseWithoutDrafts) {
  const std::unique_ptr<Model> model = Load();
  for (const double temperature : {0.0, 0.8}) {
    const std::vector<DraftedAnswer> plain = AnswerTwice(*model, Speculation::kOff, temperature),
                                     drafting = AnswerTwice(*model, Speculation::kMtp, temperature);
    for (size_t turn = 0; turn < plain.size(); ++turn) {
      EXPECT_EQ(drafting[turn].ids, plain[turn].ids);
      EXPECT_EQ(drafting[turn].logprobs, plain[turn].logprobs);
      EXPECT_EQ(plain[turn].drafts.drafted, 0);
      EXPECT_GT(drafting[turn].drafts.drafted, 0);
    }
  }
}

TEST_P(DraftingModels, LoadWithoutTheirDraftLayer) {
  const std::unique_ptr<Model> with = Load(), without = Load(DraftLayer::kSkip);
  EXPECT_FALSE(without->has_draft_layer());
  EXPECT_EQ(with->shape().layers, without->shape().layers + 1);
  EXPECT_NE(with->fingerprint(), without->fingerprint());
}

}  // namespace
}  // namespace ringside
