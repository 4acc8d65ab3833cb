// Conversations with images on an engine: a turn computes its new tokens only, a lost cache is computed again, and
// every answer equals that of the same model in one prefill.
#include <gtest/gtest.h>

#include "cache/store/ram_store.h"
#include "cache/store/tiered_store.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/vision/vision_golden.h"

namespace ringside {
namespace {

class ImageConversations : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr RingWindow kWindow{1, 200, Eviction::kToken};

  void SetUp() override {
    model_ = std::move(Model::Load(VisionFolder(GetParam()), *backend_).value());
    tokenizer_ = std::make_unique<LetterTokenizer>(model_->spec().vocab);
    prompt_ = ReadImagePrompt(*model_, GetParam(), kGoldenPictures[0]);
    Start(Speculation::kOff);
  }
  void Start(Speculation speculation, const EngineStorage& storage = {}, int64_t slots = 2) {
    EngineOptions options{.slots = slots, .memory_len = 200, .pinned_max = 40, .prefill_chunk = 16, .step_tokens = 16};
    options.kv_dtype = DType::kF32;
    options.speculation = speculation;
    engine_ = std::move(Engine::Start(*model_, *tokenizer_, options, storage, clock_).value());
  }

  SubmittedTurn Turn(TimelineId timeline, const std::vector<TokenId>& tokens, std::vector<ImageInput> images,
                     RingWindow window = kWindow) {
    SubmittedTurn turn = GreedyTurn(next_turn_++, timeline, tokens, {}, window, 6);
    turn.request.images = std::move(images);
    return turn;
  }
  /// A turn that continues what the conversation has computed, without its pictures.
  SubmittedTurn Continue(TimelineId timeline, const std::vector<TokenId>& tokens, int64_t known,
                         RingWindow window = kWindow) {
    SubmittedTurn turn = Turn(timeline, tokens, {}, window);
    turn.request.continues = true;
    turn.request.known_tokens = known;
    return turn;
  }
  /// Runs a turn that must end well, and appends its answer to `tokens`.
  TurnEnd Run(SubmittedTurn turn, std::vector<TokenId>* tokens) {
    const Status submitted = engine_->Submit(turn.request);
    EXPECT_TRUE(submitted.ok()) << submitted.ToString();
    const TurnEnd end = turn.sink->Wait();
    EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
    tokens->insert(tokens->end(), end.output.begin(), end.output.end());
    return end;
  }
  /// The greedy choices after the first `prompt` tokens of a timeline with the golden image, in one prefill.
  std::vector<TokenId> Expected(const std::vector<TokenId>& timeline, size_t prompt, RingWindow window = kWindow) {
    const auto rows = EncodePicture(*model_, *prompt_.image.picture);
    OwnCache cache(*model_, window, 256);
    int64_t row = 0;
    const std::vector<float> logits =
        RunWithImage(*model_, cache.get(), std::span(timeline).first(timeline.size() - 1), *rows, &row, 256);
    const auto vocab = static_cast<size_t>(model_->spec().vocab);
    std::vector<TokenId> choices;
    for (size_t at = prompt - 1; at + 1 < timeline.size(); ++at) {
      const auto of = std::span(logits).subspan(at * vocab, vocab);
      choices.push_back(static_cast<TokenId>(std::ranges::max_element(of) - of.begin()));
    }
    return choices;
  }
  void ExpectAnswer(const std::vector<TokenId>& timeline, size_t prompt, RingWindow window = kWindow) {
    const std::vector<TokenId> answer(timeline.begin() + static_cast<ptrdiff_t>(prompt), timeline.end());
    EXPECT_EQ(answer, Expected(timeline, prompt, window));
  }

  const std::unique_ptr<Backend> backend_ = MakeTestBackend();
  const ManualClock clock_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<LetterTokenizer> tokenizer_;
  ImagePrompt prompt_;
  std::unique_ptr<Engine> engine_;
  TurnId next_turn_ = 1;
};

// An image of Gemma 3 is longer than a chunk and a step of these engines.
INSTANTIATE_TEST_SUITE_P(Families, ImageConversations,
                         ::testing::Values("mistral3", "gemma3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ImageConversations, ATurnAfterAnImageCostsItsNewTokensOnly) {
  std::vector<TokenId> tokens = prompt_.tokens;
  Run(Turn(1, tokens, {prompt_.image}), &tokens);
  ExpectAnswer(tokens, prompt_.tokens.size());
  const auto before = std::ssize(tokens);
  tokens.insert(tokens.end(), {20, 21, 22});
  const size_t second = tokens.size();
  const TurnEnd end = Run(Continue(1, tokens, before), &tokens);
  EXPECT_EQ(end.report.source, CacheSource::kSlot);
  EXPECT_EQ(end.report.tokens_reused, before - 1);
  EXPECT_EQ(end.report.tokens_computed, 4);
  ExpectAnswer(tokens, second);
}

TEST_P(ImageConversations, ALostCacheIsComputedFromThePicture) {
  std::vector<TokenId> tokens = prompt_.tokens;
  Run(Turn(1, tokens, {prompt_.image}), &tokens);
  tokens.push_back(20);
  engine_->Close(1);
  const SubmittedTurn lost = Continue(2, tokens, std::ssize(tokens) - 1);
  ASSERT_TRUE(engine_->Submit(lost.request).ok());
  const TurnEnd failed = lost.sink->Wait();
  EXPECT_EQ(failed.reason, FinishReason::kError);
  EXPECT_EQ(failed.error.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(failed.error.reason(), "image_missing");

  const size_t prompt = tokens.size();
  SubmittedTurn again = Turn(2, tokens, {prompt_.image});
  again.request.continues = true;
  const TurnEnd end = Run(again, &tokens);
  EXPECT_EQ(end.report.source, CacheSource::kRecomputed);
  EXPECT_EQ(end.report.tokens_reused, 0);
  ExpectAnswer(tokens, prompt);
}

TEST_P(ImageConversations, ForksAndRewindsReuseTheImage) {
  std::vector<TokenId> tokens = prompt_.tokens;
  Run(Turn(1, tokens, {prompt_.image}), &tokens);
  std::vector<TokenId> forked = prompt_.tokens;
  forked.push_back(30);
  const size_t prompt = forked.size();
  SubmittedTurn fork = Continue(2, forked, std::ssize(prompt_.tokens));
  fork.request.forked_from = 1;
  EXPECT_GE(Run(fork, &forked).report.tokens_reused, std::ssize(prompt_.tokens) - 1);
  ExpectAnswer(forked, prompt);

  std::vector<TokenId> rewound = prompt_.tokens;
  rewound.back() = 31;
  EXPECT_EQ(Run(Continue(1, rewound, std::ssize(rewound) - 1), &rewound).report.tokens_reused,
            std::ssize(prompt_.tokens) - 1);
  ExpectAnswer(rewound, prompt_.tokens.size());
}

TEST_P(ImageConversations, AStoredCacheNeedsNoPicture) {
  TieredStore tiers(std::make_unique<RamStore>(1 << 22, clock_), std::make_unique<RamStore>(1 << 22, clock_),
                    {.host_idle_ms = 0, .sweep_ms = 0});
  EngineStorage storage{.tiers = &tiers, .fetch_deadline_ms = 60'000};
  storage.fingerprint = model_->fingerprint();
  Start(Speculation::kOff, storage, 1);
  std::vector<TokenId> tokens = prompt_.tokens, other{1, 50, 51};
  SubmittedTurn first = Turn(1, tokens, {prompt_.image});
  first.request.owner = first.request.tenant = "one";
  Run(first, &tokens);
  const auto known = std::ssize(tokens);
  SubmittedTurn second = Turn(2, other, {});
  second.request.owner = second.request.tenant = "two";
  Run(second, &other);  // takes the slot
  tokens.push_back(20);
  const size_t prompt = tokens.size();
  SubmittedTurn back = Continue(1, tokens, known);
  back.request.owner = back.request.tenant = "one";
  const TurnEnd end = Run(back, &tokens);
  EXPECT_EQ(end.report.source, CacheSource::kHost);
  EXPECT_EQ(end.report.tokens_reused, known - 1);
  ExpectAnswer(tokens, prompt);
  engine_.reset();
}

// Another picture in the same place: everything from its first row on is computed again.
TEST_P(ImageConversations, AnotherPictureIsAnotherPrefix) {
  std::vector<TokenId> tokens = prompt_.tokens;
  Run(Turn(1, tokens, {prompt_.image}), &tokens);
  Picture other = *prompt_.image.picture;
  other.digest[0] ^= 1;
  std::ranges::reverse(other.rgb);
  ImageInput image = prompt_.image;
  image.picture = std::make_shared<const Picture>(std::move(other));
  std::vector<TokenId> changed = prompt_.tokens;
  std::ranges::copy(model_->image_format()->Tokens(*image.picture).value(), changed.begin() + image.position);
  const TurnEnd end = Run(Turn(1, changed, {image}), &changed);
  EXPECT_EQ(end.report.tokens_reused, std::ranges::find_if(changed, IsImageToken) - changed.begin());
}

// The window is shorter than the image, so that the ring wraps around inside it and again after it.
TEST_P(ImageConversations, WindowsSlideOverImages) {
  constexpr RingWindow kSmall{1, 12, Eviction::kToken};
  std::vector<TokenId> tokens = prompt_.tokens;
  Run(Turn(1, tokens, {prompt_.image}, kSmall), &tokens);
  ExpectAnswer(tokens, prompt_.tokens.size(), kSmall);
  const auto known = std::ssize(tokens);
  for (TokenId id = 40; id < 70; ++id) tokens.push_back(id);
  const size_t prompt = tokens.size();
  EXPECT_GT(Run(Continue(1, tokens, known, kSmall), &tokens).report.tokens_evicted, 0);
  ExpectAnswer(tokens, prompt, kSmall);
}

// Pinned tokens end before, in and after the image.
TEST_P(ImageConversations, ImagesMayBePinned) {
  for (const int64_t pinned : {3, 5, 6, 12, 27, 30, 31, 33}) {
    RingWindow window{pinned, 12, Eviction::kToken};
    std::vector<TokenId> tokens = prompt_.tokens;
    Run(Turn(pinned, tokens, {prompt_.image}, window), &tokens);
    const auto known = std::ssize(tokens);
    for (TokenId id = 40; id < 70; ++id) tokens.push_back(id);
    const size_t prompt = tokens.size();
    Run(Continue(pinned, tokens, known, window), &tokens);
    // The engine pins no part of an image that is computed as a whole.
    const bool whole = model_->shape().whole_image_tokens > 0;
    if (whole && pinned > prompt_.image.position + 1 && pinned < prompt_.image.position + prompt_.image.tokens - 1) {
      window.pinned = prompt_.image.position + 1;
    }
    ExpectAnswer(tokens, prompt, window);
  }
}

// Two conversations with images share steps with one that decodes.
TEST_P(ImageConversations, StepsAreShared) {
  std::vector<TokenId> text{1, 50, 51}, one = prompt_.tokens, two = prompt_.tokens;
  two[1] = 90;
  Start(Speculation::kOff, {}, 3);
  SubmittedTurn decodes = Turn(1, text, {});
  decodes.request.max_tokens = 60;
  SubmittedTurn first = Turn(2, one, {prompt_.image}), second = Turn(3, two, {prompt_.image});
  for (const SubmittedTurn* turn : {&decodes, &first, &second}) ASSERT_TRUE(engine_->Submit(turn->request).ok());
  const std::pair<const SubmittedTurn*, std::vector<TokenId>*> ends[] = {{&first, &one}, {&second, &two}};
  for (const auto& [turn, tokens] : ends) {
    const TurnEnd end = turn->sink->Wait();
    tokens->insert(tokens->end(), end.output.begin(), end.output.end());
  }
  EXPECT_EQ(decodes.sink->Wait().output.size(), 60u);
  engine_.reset();  // the model is free
  for (const auto* tokens : {&one, &two}) ExpectAnswer(*tokens, prompt_.tokens.size());
}

// Image ids are in no vocabulary: penalties, bad words and drafts must not see them.
TEST_P(ImageConversations, SamplersAndDraftsIgnoreImageTokens) {
  Start(Speculation::kNgram);
  std::vector<TokenId> tokens = prompt_.tokens;
  const std::vector<TokenId> begin(tokens.begin(), tokens.begin() + prompt_.image.position);
  tokens.insert(tokens.end(), begin.begin(), begin.end());  // was followed by the image before
  SubmittedTurn turn = Turn(1, tokens, {prompt_.image});
  turn.request.sampling.repetition_penalty = 1.2;
  turn.request.sampling.presence_penalty = 0.5;
  turn.request.sampling.bad_words = {{begin.back(), 7}};
  turn.request.max_tokens = 40;
  const TurnEnd end = Run(turn, &tokens);
  for (const TokenId id : end.output) EXPECT_LT(id, model_->spec().vocab);
}

TEST_P(ImageConversations, SubmitRefusesImagesThatDoNotFit) {
  const auto refused = [&](const SubmittedTurn& turn) {
    const Status status = engine_->Submit(turn.request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.reason();
  };
  EXPECT_EQ(refused(Turn(1, prompt_.tokens, {})), "image_missing");
  ImageInput moved = prompt_.image;
  ++moved.position;
  refused(Turn(1, prompt_.tokens, {moved}));
  ImageInput longer = prompt_.image;
  longer.tokens = std::ssize(prompt_.tokens);
  refused(Turn(1, prompt_.tokens, {longer}));
  ImageInput empty = prompt_.image;
  empty.picture = nullptr;
  refused(Turn(1, prompt_.tokens, {empty}));
  refused(Turn(1, prompt_.tokens, {prompt_.image, prompt_.image}));
  SubmittedTurn scored = Turn(1, prompt_.tokens, {prompt_.image});
  scored.request.scored = true;
  scored.request.sampling.logprobs = 0;
  EXPECT_EQ(refused(scored), "unsupported_value");
}

TEST_P(ImageConversations, ModelsWithoutATowerRefuseImageTokens) {
  const auto text = std::move(Model::Load(GoldenFolder("llama"), *backend_).value());
  const auto engine =
      std::move(Engine::Start(*text, *tokenizer_, EngineOptions{.slots = 1, .memory_len = 64}, {}, clock_).value());
  const SubmittedTurn turn = GreedyTurn(1, 1, {1, kFirstImageToken, 2}, {}, {1, 64, Eviction::kToken}, 1);
  EXPECT_EQ(engine->Submit(turn.request).reason(), "unsupported_value");
}

}  // namespace
}  // namespace ringside
