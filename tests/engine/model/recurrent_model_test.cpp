// Families with recurrent layers, over more than two chunks of state: bit for bit the same logits for every split into
// steps, with batch-mates, after a rolled-back draft, and on every instruction set and number of threads.
#include <gtest/gtest.h>

#include "tests/engine/model/family_names.h"
#include "tests/engine/model/model_run.h"

namespace ringside {
namespace {

constexpr RingWindow kWhole{4, 256, Eviction::kToken};
constexpr int64_t kMost = 100;  // rows of a step

class RecurrentModel : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    model_ = LoadOn(*backend_);
    ASSERT_TRUE(model_->spec().recurrent());
    ids_ = GoldenIds(150);
    want_ = Run(*model_, 1);
  }
  static std::unique_ptr<Model> LoadOn(Backend& backend) {
    auto model = Model::Load(FamilyFolder(GetParam()), backend);
    CHECK(model.ok());
    return std::move(*model);
  }
  std::vector<float> Run(Model& model, int64_t chunk) const {
    OwnCache cache(model, kWhole, kMost);
    return RunAll(model, cache.get(), ids_, chunk);
  }

  std::unique_ptr<Backend> backend_ = MakeTestBackend();
  std::unique_ptr<Model> model_;
  std::vector<TokenId> ids_;
  std::vector<float> want_;  // one token a step
};
INSTANTIATE_TEST_SUITE_P(All, RecurrentModel, ::testing::ValuesIn(kRecurrentFamilies),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(RecurrentModel, EverySplitGivesTheSameBits) {
  for (const int64_t chunk : {7, 64, 100}) EXPECT_TRUE(Run(*model_, chunk) == want_) << "chunk " << chunk;
}

TEST_P(RecurrentModel, EveryInstructionSetAndThreadCountGivesTheSameBits) {
  for (const std::string_view set : CpuInstructionSets()) {
    for (const int threads : {1, 2}) {
      const auto backend = MakeCpuBackend({.threads = threads, .instruction_set = std::string(set)});
      ASSERT_TRUE(backend.ok());
      const auto model = LoadOn(**backend);
      EXPECT_TRUE(Run(*model, 50) == want_) << set << ", threads " << threads;
    }
  }
}

TEST_P(RecurrentModel, BatchMatesChangeNothing) {
  const std::vector<TokenId> other = ScatteredIds(150, model_->spec().vocab);
  OwnCache cache(*model_, kWhole, kMost), mate(*model_, kWhole, kMost);
  const auto vocab = static_cast<size_t>(model_->spec().vocab);
  std::vector<float> together;
  for (size_t t = 0; t < ids_.size(); t += 30) {
    std::vector<float> logits(31 * vocab);
    const StepPart parts[] = {{mate.get(), std::span(other).subspan(t, 30), StepPart::Logits::kLast},
                              {cache.get(), std::span(ids_).subspan(t, 30), StepPart::Logits::kAll}};
    model_->Forward(parts, logits);
    together.insert(together.end(), logits.begin() + static_cast<std::ptrdiff_t>(vocab), logits.end());
  }
  EXPECT_TRUE(together == want_);
}

// A rejected draft leaves no trace, at every position whose chunk has room for it.
TEST_P(RecurrentModel, RolledBackDraftsChangeNothing) {
  OwnCache cache(*model_, kWhole, kMost);
  std::vector<float> got;
  RunWithRejectedDrafts(*model_, cache.get(), ids_, &got);
  if (HasFatalFailure()) return;
  EXPECT_TRUE(got == want_);
}

}  // namespace
}  // namespace ringside
