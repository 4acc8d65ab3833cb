// Shared by engine tests: a sink that waits, and a request builder.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "engine/engine.h"
#include "tests/engine/letter_tokenizer.h"
#include "tests/patience.h"

namespace ringside {

/// Collects a turn's output and lets a test wait for its end, or for a number of tokens.
class WaitingSink final : public TokenSink {
 public:
  void OnQueued(int64_t position) override {
    std::lock_guard lock(mutex_);
    EXPECT_FALSE(started_ || ended_);
    positions_.push_back(position);
    changed_.notify_all();
  }
  void OnStart(const CacheReport& report) override {
    std::lock_guard lock(mutex_);
    EXPECT_FALSE(started_ || ended_);
    started_ = true;
    start_ = report;
  }
  void OnScored(std::vector<OutputToken> tokens) override {
    std::lock_guard lock(mutex_);
    EXPECT_TRUE(started_ && !ended_ && ids_.empty() && scored_.empty());
    scored_ = std::move(tokens);
  }
  void OnEmbedded(std::vector<float> mean) override {
    std::lock_guard lock(mutex_);
    EXPECT_TRUE(started_ && !ended_ && ids_.empty() && embedding_.empty());
    embedding_ = std::move(mean);
  }
  void OnTokens(const TokenDelta& delta) override {
    std::lock_guard lock(mutex_);
    EXPECT_TRUE(started_ && !ended_);
    for (const auto& token : delta.tokens) {
      ids_.push_back(token.id);
      logprobs_.push_back(token.logprob);
      if (token.top.size() >= 2) leads_.push_back(token.top[0].logprob - token.top[1].logprob);
    }
    text_ += delta.text;
    changed_.notify_all();
  }
  void OnEnd(const TurnEnd& end) override {
    std::lock_guard lock(mutex_);
    EXPECT_FALSE(ended_);
    ended_ = true;
    end_ = end;
    changed_.notify_all();
  }
  TurnEnd Wait() {
    std::unique_lock lock(mutex_);
    const bool in_time = changed_.wait_for(lock, Patience(), [&] { return ended_; });
    EXPECT_TRUE(in_time) << "the turn never ended";
    return end_;
  }
  void WaitForTokens(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, Patience(), [&] { return ended_ || ids_.size() >= n; });
  }
  void WaitForPosition(int64_t position) {
    std::unique_lock lock(mutex_);
    const bool in_time =
        changed_.wait_for(lock, Patience(), [&] { return !positions_.empty() && positions_.back() == position; });
    EXPECT_TRUE(in_time) << "never told of place " << position;
  }
  /// Every queue position reported.
  std::vector<int64_t> positions() {
    std::lock_guard lock(mutex_);
    return positions_;
  }
  std::string text() {
    std::lock_guard lock(mutex_);
    return text_;
  }
  std::vector<TokenId> ids() {
    std::lock_guard lock(mutex_);
    return ids_;
  }
  std::vector<float> logprobs() {
    std::lock_guard lock(mutex_);
    return logprobs_;
  }
  /// The lead of each token over the runner-up, if the turn requested two log probabilities.
  std::vector<float> leads() {
    std::lock_guard lock(mutex_);
    return leads_;
  }
  /// The prompt's tokens, if they were scored.
  std::vector<OutputToken> scored() {
    std::lock_guard lock(mutex_);
    return scored_;
  }
  /// The mean of the prompt's hidden states, if requested.
  std::vector<float> embedding() {
    std::lock_guard lock(mutex_);
    return embedding_;
  }
  CacheReport start() {
    std::lock_guard lock(mutex_);
    return start_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false, ended_ = false;
  CacheReport start_;
  std::vector<TokenId> ids_;
  std::vector<int64_t> positions_;
  std::vector<float> logprobs_, leads_;
  std::vector<OutputToken> scored_;
  std::vector<float> embedding_;
  std::string text_;
  TurnEnd end_;
};

struct SubmittedTurn {
  std::shared_ptr<WaitingSink> sink = std::make_shared<WaitingSink>();
  TurnRequest request;
};

/// A greedy turn of `max_tokens` on a timeline.
inline SubmittedTurn GreedyTurn(TurnId turn, TimelineId timeline, std::vector<TokenId> tokens,
                                std::vector<int64_t> starts, RingWindow window, int64_t max_tokens) {
  SubmittedTurn out;
  out.request.turn = turn;
  out.request.timeline = timeline;
  out.request.tokens = std::move(tokens);
  out.request.message_starts = std::move(starts);
  out.request.window = window;
  out.request.sampling.temperature = 0;
  out.request.max_tokens = max_tokens;
  out.request.sink = out.sink;
  return out;
}

}  // namespace ringside
