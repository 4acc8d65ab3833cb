// Sessions of families with recurrent layers in the engine, on every device with a fixed order, on ranks and in stages:
// rewinds, edits, forks and many turns give the same tokens and log probabilities, bit for bit, as a computation from
// the first token on.
#include <gtest/gtest.h>

#include "tests/engine/engine_harness.h"
#include "tests/engine/model/family_names.h"
#include "tests/engine/model/model_run.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

using SessionsCase = std::tuple<std::string, std::string, RankLayout>;  // a device, a family

class RecurrentSessions : public ::testing::TestWithParam<SessionsCase> {
 protected:
  static constexpr RingWindow kWindow{4, 60, Eviction::kTurn};

  void SetUp() override {
    const auto& [device, family, layout] = GetParam();
    if (layout.ranks() > 1) {
      backends_ = testing::MakeTestRanks(device, layout);
    } else {
      backends_.push_back(testing::MakeDevice(device));
    }
    if (backends_[0] == nullptr) GTEST_SKIP() << "no " << device << " here";
    std::vector<Backend*> ranks;
    for (const auto& backend : backends_) ranks.push_back(backend.get());
    auto model = Model::Load(FamilyFolder(family), ranks, layout.stages);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = std::move(*model);
    tokenizer_ = std::make_unique<LetterTokenizer>(model_->spec().vocab);
    auto started = Engine::Start(
        *model_, *tokenizer_, {.slots = 4, .memory_len = 100, .pinned_max = 8, .prefill_chunk = 32, .state_slots = 3});
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
    ids_ = ScatteredIds(230, model_->spec().vocab, 3);
  }
  struct Answer {
    std::vector<TokenId> ids;
    std::vector<float> logprobs;
    CacheReport report;
  };
  Answer Run(TimelineId timeline, const std::vector<TokenId>& tokens, const std::string& tenant) {
    SubmittedTurn turn = GreedyTurn(++turns_, timeline, tokens, {0, 30, 90, 140}, kWindow, /*max_tokens=*/4);
    turn.request.tenant = tenant;
    turn.request.sampling.logprobs = 0;
    EXPECT_TRUE(engine_->Submit(turn.request).ok());
    const TurnEnd end = turn.sink->Wait();
    EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
    return {turn.sink->ids(), turn.sink->logprobs(), end.report};
  }
  /// Runs the turn with whatever the engine has, and from the first token on.
  Answer ExpectExact(TimelineId timeline, const std::vector<TokenId>& tokens) {
    const TimelineId fresh = ++fresh_;
    const Answer expected = Run(fresh, tokens, "tenant_" + std::to_string(fresh));
    EXPECT_EQ(expected.report.tokens_reused, 0);
    engine_->Close(fresh);
    const Answer answer = Run(timeline, tokens, "session");
    EXPECT_EQ(answer.ids, expected.ids) << tokens.size();
    EXPECT_EQ(answer.logprobs, expected.logprobs) << tokens.size();
    return answer;
  }
  std::vector<TokenId> First(int64_t n) const { return {ids_.begin(), ids_.begin() + n}; }

  std::vector<std::unique_ptr<Backend>> backends_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
  std::vector<TokenId> ids_;
  TurnId turns_ = 0;
  TimelineId fresh_ = 1000;
};

/// All alone, and one of each mixer shared.
std::vector<SessionsCase> SessionsCases() {
  std::vector<SessionsCase> cases;
  for (const char* device : {"cpu", "cuda_bf16_fixed"}) {
    for (const char* family : kRecurrentFamilies) cases.emplace_back(device, family, RankLayout{});
  }
  for (const char* family : {"qwen3_next", "granitemoehybrid", "kimi_linear", "lfm2_moe"}) {
    for (const RankLayout layout : {RankLayout{.tensor = 2}, RankLayout{.stages = 2}}) {
      cases.emplace_back("cpu", family, layout);
    }
  }
  return cases;
}
std::string NameOf(const ::testing::TestParamInfo<SessionsCase>& info) {
  const auto& [device, family, layout] = info.param;
  return device + "_" + family + (layout.ranks() == 1 ? "" : layout.tensor > 1 ? "_2_ranks" : "_2_stages");
}
INSTANTIATE_TEST_SUITE_P(All, RecurrentSessions, ::testing::ValuesIn(SessionsCases()), NameOf);

TEST_P(RecurrentSessions, RewindsAndEditsAreExact) {
  for (int64_t length = 200; length > 1; length -= 13) {
    Run(1, ids_, "session");
    ExpectExact(1, First(length));  // a rewind
    std::vector<TokenId> edited = First(length);
    edited.back() = (edited.back() + 1) % static_cast<TokenId>(model_->spec().vocab);
    ExpectExact(1, edited);
    if (HasFailure()) FAIL() << length;
  }
}

TEST_P(RecurrentSessions, TwentyTurnsComputeNewTokensOnly) {
  std::vector<TokenId> tokens = First(20);
  for (int64_t turn = 0; turn < 20; ++turn) {
    const Answer answer = ExpectExact(1, tokens);
    if (turn > 0) {
      EXPECT_LE(answer.report.tokens_computed, 6 + 1) << "five new tokens and the last one of the answer";
    }
    EXPECT_EQ(answer.report.tokens_replayed, 0);
    tokens.insert(tokens.end(), answer.ids.begin(), answer.ids.end());
    tokens.insert(tokens.end(), ids_.begin() + turn, ids_.begin() + turn + 5);
  }
}

TEST_P(RecurrentSessions, AForkContinuesFromTheSharedPrefix) {
  std::vector<TokenId> fork = First(150);
  fork.insert(fork.end(), 20, 1);
  Run(1, First(170), "session");
  const Answer answer = ExpectExact(2, fork);
  EXPECT_GE(answer.report.tokens_reused, 128);
  ExpectExact(1, First(200));
}

}  // namespace
}  // namespace ringside
