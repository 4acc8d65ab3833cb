// Turns of a network with an encoder: the pinned tokens are its input, encoded as a whole, and the answer follows.
// Every answer is compared with the network alone, token by token.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "tests/engine/engine_harness.h"
#include "tests/engine/model/model_run.h"
#include "tests/engine/tiers/tiers_harness.h"
#include "tests/kernels/devices.h"

namespace ringside {
namespace {

constexpr TokenId kStart = 3;  // every answer begins with it

class EncoderTurnsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const auto& [backend, model] : {std::pair{&backend_, &model_}, {&own_backend_, &own_model_}}) {
      *backend = testing::MakeDevice(GetParam());
      if (*backend == nullptr) GTEST_SKIP() << "no " << GetParam() << " here";
      auto loaded = Model::Load(GoldenFolder("encoders/t5_gated"), **backend);
      ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
      *model = std::move(*loaded);
    }
  }
  void TearDown() override {
    engine_.reset();
    folder_.reset();
  }
  void Start(int64_t slots, bool tiers = false) {
    EngineStorage storage;
    if (tiers) {
      folder_ = std::make_unique<TierFolder>(/*in_memory=*/true);
      storage = {.tiers = &folder_->Open(int64_t{1} << 30, int64_t{1} << 30), .fetch_deadline_ms = 60'000};
    }
    // A step has fewer rows than the inputs have tokens.
    auto started = Engine::Start(*model_, tokenizer_,
                                 {.slots = slots,
                                  .memory_len = 64,
                                  .pinned_max = 100,
                                  .prefill_chunk = 8,
                                  .step_tokens = 16,
                                  .kv_dtype = backend_->activation_dtype()},
                                 storage);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }
  SubmittedTurn Turn(TimelineId timeline, const std::vector<TokenId>& input, std::vector<TokenId> answer,
                     int64_t max_tokens) {
    std::vector<TokenId> tokens = input;
    tokens.push_back(kStart);
    tokens.insert(tokens.end(), answer.begin(), answer.end());
    SubmittedTurn turn = GreedyTurn(++last_turn_, timeline, std::move(tokens), {0, std::ssize(input)},
                                    {std::ssize(input), 64, Eviction::kToken}, max_tokens);
    turn.request.owner = "conv_" + std::to_string(timeline);
    return turn;
  }
  TurnEnd Run(const SubmittedTurn& turn) {
    const Status accepted = engine_->Submit(turn.request);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
    return accepted.ok() ? turn.sink->Wait() : TurnEnd{};
  }
  /// The greedy output of the network alone.
  std::vector<TokenId> Expected(const SubmittedTurn& turn) {
    const RingWindow window = turn.request.window;
    OwnCache cache(*own_model_, window, 16, own_backend_->activation_dtype());
    std::span<const TokenId> tokens = turn.request.tokens;
    const StepPart input{cache.get(), tokens.first(static_cast<size_t>(window.pinned)), StepPart::Logits::kNone};
    own_model_->Forward({&input, 1}, {});
    std::vector<TokenId> next(tokens.begin() + window.pinned, tokens.end()), answer;
    while (std::ssize(answer) < turn.request.max_tokens) {
      const std::vector<float> logits = RunAll(*own_model_, cache.get(), next, 16);
      const auto last = logits.end() - own_model_->spec().vocab;
      answer.push_back(static_cast<TokenId>(std::max_element(last, logits.end()) - last));
      next = {answer.back()};
    }
    return answer;
  }

  // The engine's, and the test's own, which runs concurrently.
  std::unique_ptr<Backend> backend_, own_backend_;
  std::unique_ptr<Model> model_, own_model_;
  LetterTokenizer tokenizer_{96};
  std::unique_ptr<TierFolder> folder_;
  std::unique_ptr<Engine> engine_;
  TurnId last_turn_ = 0;
};
INSTANTIATE_TEST_SUITE_P(All, EncoderTurnsTest, ::testing::Values("cpu", "cuda_bf16_fixed"),
                         [](const auto& info) { return info.param; });

TEST_P(EncoderTurnsTest, MatchTheNetwork) {
  Start(4);
  std::vector<SubmittedTurn> turns;
  for (const size_t length : {1, 40, 17, 100}) {  // concurrent, with more tokens than a step has rows
    turns.push_back(Turn(turns.size() + 1, ScatteredIds(length, 96, static_cast<uint32_t>(length)), {}, 20));
  }
  for (const SubmittedTurn& turn : turns) ASSERT_TRUE(engine_->Submit(turn.request).ok());
  for (const SubmittedTurn& turn : turns) {
    EXPECT_EQ(turn.sink->Wait().output, Expected(turn)) << turn.request.window.pinned;
    EXPECT_EQ(turn.sink->start().tokens_computed, turn.request.window.pinned + 1);
  }
}

TEST_P(EncoderTurnsTest, ContinueAfterAnUnchangedInput) {
  Start(2);
  const std::vector<TokenId> input = ScatteredIds(30, 96);
  const SubmittedTurn first = Turn(1, input, {}, 10);
  const std::vector<TokenId> begun = Run(first).output;
  const SubmittedTurn more = Turn(1, input, begun, 10);
  EXPECT_EQ(Run(more).output, Expected(more));
  EXPECT_GE(more.sink->start().tokens_reused, 30 + 10);
  const SubmittedTurn again = Turn(1, input, {}, 10);  // the answer is rewound
  EXPECT_EQ(Run(again).output, begun);
  EXPECT_EQ(again.sink->start().tokens_reused, 30);
}

TEST_P(EncoderTurnsTest, RereadAChangedInput) {
  Start(2);
  std::vector<TokenId> input = ScatteredIds(30, 96);
  Run(Turn(1, input, {}, 10));
  input[29] ^= 1;
  const SubmittedTurn other = Turn(1, input, {}, 10);
  EXPECT_EQ(Run(other).output, Expected(other));
  EXPECT_EQ(other.sink->start().tokens_reused, 0) << "of an encoder's rows every one depends on all";
  input.push_back(5);
  const SubmittedTurn longer = Turn(2, input, {}, 10);
  EXPECT_EQ(Run(longer).output, Expected(longer));
}

TEST_P(EncoderTurnsTest, ShareOnlyWholeInputs) {
  Start(3);
  std::vector<TokenId> input = ScatteredIds(90, 96);
  Run(Turn(1, input, {}, 5));
  const SubmittedTurn same = Turn(2, input, {}, 8);
  EXPECT_EQ(Run(same).output, Expected(same));
  EXPECT_EQ(engine_->stats().tokens_shared, 90u);
  input[89] ^= 1;
  const SubmittedTurn other = Turn(3, input, {}, 8);
  EXPECT_EQ(Run(other).output, Expected(other));
  EXPECT_EQ(engine_->stats().tokens_shared, 90u);
}

TEST_P(EncoderTurnsTest, AreSavedAndRestored) {
  Start(1, /*tiers=*/true);
  const std::vector<TokenId> input = ScatteredIds(30, 96), other = ScatteredIds(30, 96, 2);
  const std::vector<TokenId> begun = Run(Turn(1, input, {}, 10)).output;
  Run(Turn(2, other, {}, 10));  // takes the only slot
  const SubmittedTurn more = Turn(1, input, begun, 10);
  EXPECT_EQ(Run(more).output, Expected(more));
  EXPECT_EQ(more.sink->start().source, CacheSource::kHost);
  EXPECT_GE(more.sink->start().tokens_reused, 30 + 10);
}

TEST_P(EncoderTurnsTest, RefuseUnsupportedOptions) {
  Start(2);
  const std::vector<TokenId> input = ScatteredIds(20, 96);
  SubmittedTurn nothing = Turn(1, input, {}, 5), none = nothing, scored = nothing, beams = nothing;
  nothing.request.tokens.pop_back();
  none.request.window.pinned = 0;
  scored.request.scored = true, scored.request.sampling.logprobs = 0;
  beams.request.sampling.beams.width = 2;
  for (const auto& [turn, what] : {std::pair{&nothing, "at least one token after it"},
                                   {&none, "must be exactly the pinned tokens"},
                                   {&scored, "prompt scoring is not available"},
                                   {&beams, "without an encoder"}}) {
    const Status refused = engine_->Submit(turn->request);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(refused.message().find(what), std::string::npos) << refused.message();
  }
}

}  // namespace
}  // namespace ringside
