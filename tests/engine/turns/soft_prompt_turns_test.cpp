// Turns with soft prompts: their rows precede all tokens and are never evicted, and are invisible elsewhere: not
// counted, not penalized, not in another's cache. Two turns equal one; caches are saved and restored under the same
// prompt only.
#include <gtest/gtest.h>

#include "tests/engine/engine_harness.h"
#include "tests/engine/model/adapters/made_adapter.h"
#include "tests/engine/model/model_run.h"
#include "tests/engine/tiers/tiers_harness.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

constexpr RingWindow kPromptWindow{4, 60, Eviction::kTurn};
constexpr int64_t kPromptAnswer = 6, kPromptRoom = 64 << 20, kPromptMinute = 60'000;

/// On devices that compute a row with the same bits in every batch.
class SoftPromptTurns : public testing::DeviceTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { Use(GetParam()); }
  /// Number 1 is the soft prompt, 2 a LoRA adapter.
  void Start(TieredStore* tiers = nullptr, bool with_adapters = true) {
    engine_.reset();
    model_ = std::move(Model::Load(GoldenFolder("llama"), *backend_).value());
    const NamedAdapter named[] = {{"tone", GoldenFolder("soft_prompts/llama"), NamedAdapter::Kind::kSoftPrompt},
                                  {"lora", lora_.path()}};
    if (with_adapters) {
      ASSERT_TRUE(model_->LoadAdapters(named).ok());
    }
    tokenizer_ = std::make_unique<LetterTokenizer>(model_->spec().vocab);
    auto engine = Engine::Start(*model_, *tokenizer_,
                                {.slots = 6,
                                 .memory_len = kPromptWindow.memory_len,
                                 .pinned_max = 4,  // the prompt's rows come on top
                                 .session_len = 500,
                                 .prefill_chunk = 16,
                                 .kv_dtype = type_ == DType::kF32 ? DType::kF16 : type_},
                                {.tiers = tiers,
                                 .fingerprint = model_->fingerprint(),
                                 .adapter_fingerprints = model_->adapter_fingerprints(),
                                 .fetch_deadline_ms = kPromptMinute});
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engine_ = std::move(*engine);
  }
  void TearDown() override {
    engine_.reset();
    model_.reset();
  }
  static std::vector<TokenId> Prompt(size_t count = 30) { return ScatteredIds(count, 90, 5); }
  SubmittedTurn Under(int adapter, TimelineId timeline, const std::vector<TokenId>& tokens) {
    SubmittedTurn turn = GreedyTurn(++last_turn_, timeline, tokens, {0}, kPromptWindow, kPromptAnswer);
    turn.request.adapter = adapter;
    turn.request.owner = "conv_" + std::to_string(timeline);
    turn.request.sampling.logprobs = 0;
    return turn;
  }
  TurnEnd Run(const SubmittedTurn& turn) {
    const Status accepted = engine_->Submit(turn.request);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
    return accepted.ok() ? turn.sink->Wait() : TurnEnd{};
  }
  using Answer = std::pair<std::vector<TokenId>, std::vector<float>>;
  static Answer AnswerOf(const SubmittedTurn& turn) { return {turn.sink->ids(), turn.sink->logprobs()}; }
  static std::vector<TokenId> Joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  const MadeAdapter lora_{"llama", {}};
  std::unique_ptr<Model> model_;
  std::unique_ptr<LetterTokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
  TurnId last_turn_ = 0;
};

INSTANTIATE_TEST_SUITE_P(All, SoftPromptTurns, ::testing::Values("cpu", "cuda_bf16_fixed"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(SoftPromptTurns, TwoTurnsEqualOneAndTheWindowKeepsItsRows) {
  Start();
  std::vector<TokenId> said = Prompt();
  for (int turn = 0; turn < 6; ++turn) {  // beyond the window
    const SubmittedTurn next = Under(1, 1, said), once = Under(1, 100 + static_cast<TimelineId>(turn), said);
    const TurnEnd end = Run(next), whole = Run(once);
    EXPECT_EQ(AnswerOf(next), AnswerOf(once));
    const auto length = std::ssize(said);
    EXPECT_EQ(end.report.position, length + kPromptAnswer);
    EXPECT_EQ(end.report.tokens_reused + end.report.tokens_computed, length);
    EXPECT_EQ(end.report.tokens_reused, turn == 0 ? 0 : length - 10);
    EXPECT_EQ(end.report.tokens_evicted, whole.report.tokens_evicted);
    EXPECT_EQ(end.report.tokens_evicted > 0, length + kPromptAnswer > 64) << length;
    engine_->Close(once.request.timeline);
    said = Joined(Joined(said, end.output), ScatteredIds(9, 90, 60 + static_cast<uint32_t>(turn)));
  }
}

TEST_P(SoftPromptTurns, BatchingDoesNotChangeSoftPromptTurns) {
  Start();
  std::vector<Answer> alone;
  for (const int adapter : {0, 1, 2}) {
    const SubmittedTurn turn = Under(adapter, 1, Prompt());
    Run(turn);
    alone.push_back(AnswerOf(turn));
    engine_->Close(1);
  }
  EXPECT_NE(alone[0], alone[1]);
  std::vector<SubmittedTurn> turns;
  for (const int adapter : {1, 0, 2, 1, 0}) {
    turns.push_back(Under(adapter, 10 + turns.size(), Prompt()));
    ASSERT_TRUE(engine_->Submit(turns.back().request).ok());
  }
  for (const SubmittedTurn& turn : turns) {
    EXPECT_EQ(turn.sink->Wait().reason, FinishReason::kLength);
    EXPECT_EQ(AnswerOf(turn), alone[static_cast<size_t>(turn.request.adapter)]);
  }
}

TEST_P(SoftPromptTurns, SharePrefixesOnlyUnderTheSamePrompt) {
  Start();
  const std::vector<TokenId> prompt = ScatteredIds(70, 90, 5);
  TimelineId timeline = 1;
  const auto reused = [&](int adapter) {
    SubmittedTurn turn = Under(adapter, ++timeline, prompt);
    turn.request.window.pinned = 0;
    return Run(turn).report.tokens_reused;
  };
  EXPECT_EQ(reused(0), 0);
  EXPECT_EQ(reused(1), 0);
  EXPECT_EQ(reused(1), 69);
}

TEST_P(SoftPromptTurns, AreSavedAndRestored) {
  TierFolder folder;
  Start(&folder.Open(kPromptRoom, kPromptRoom));
  const SubmittedTurn before = Under(1, 3, Prompt());
  Run(before);
  EXPECT_TRUE(WaitFor([&](auto done) { engine_->SaveAll(done); }).ok());
  engine_.reset();
  const auto after_restart = [&](bool with_adapters, int adapter) {
    Start(&folder.Open(kPromptRoom, kPromptRoom), with_adapters);
    SubmittedTurn turn = Under(adapter, 4, Prompt());
    turn.request.owner = "conv_3";
    const TurnEnd end = Run(turn);
    const Answer answer = AnswerOf(turn);
    engine_.reset();
    return std::pair(end.report, answer);
  };
  const auto [same, answer] = after_restart(true, 1);
  EXPECT_EQ(same.source, CacheSource::kDisk);
  EXPECT_EQ(same.tokens_reused, std::ssize(Prompt()) - 1);
  EXPECT_EQ(same.tokens_computed, 1);
  EXPECT_EQ(answer, AnswerOf(before));
  EXPECT_EQ(after_restart(false, 0).first.source, CacheSource::kRecomputed);
}

TEST_P(SoftPromptTurns, PenaltiesBeamsAndLimitsIgnoreThem) {
  Start();
  SubmittedTurn penalised = Under(1, 1, Prompt());
  penalised.request.sampling.repetition_penalty = 1.3;
  EXPECT_EQ(Run(penalised).reason, FinishReason::kLength);
  SubmittedTurn beams = Under(1, 2, Prompt());
  beams.request.sampling = {.temperature = 0, .beams = {.width = 3}};
  EXPECT_EQ(std::ssize(Run(beams).output), kPromptAnswer);
  SubmittedTurn to_the_end = Under(1, 3, Prompt());
  to_the_end.request.session_len = 40;
  to_the_end.request.max_tokens = -1;
  const TurnEnd end = Run(to_the_end);
  EXPECT_EQ(end.reason, FinishReason::kSessionFull);
  EXPECT_EQ(end.report.position, 40);
  SubmittedTurn scored = Under(1, 4, Prompt());
  scored.request.scored = true;
  const Status refused = engine_->Submit(scored.request);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.param(), "logprobs");
  EXPECT_FALSE(engine_->Submit(Under(1, 5, {96}).request).ok()) << "an id that only the engine may use";
}

// Several answers under one prompt: branches of a history that begins with its rows.
TEST_P(SoftPromptTurns, Branch) {
  Start();
  std::vector<SubmittedTurn> turns = {Under(1, 1, Prompt())};
  turns[0].request.max_tokens = 25;
  ASSERT_TRUE(engine_->Submit(turns[0].request).ok());
  turns[0].sink->WaitForTokens(1);
  SubmittedTurn branch = Under(1, 2, Prompt());
  branch.request.may_branch = true;
  Run(branch);
  turns[0].sink->Wait();
  EXPECT_EQ(branch.sink->start().tokens_reused, std::ssize(Prompt()) - 1);
  std::vector<TokenId> first = turns[0].sink->ids();
  first.resize(kPromptAnswer);
  EXPECT_EQ(branch.sink->ids(), first);
}

}  // namespace
}  // namespace ringside
