// A sink that acts in the middle of a turn, on the engine's thread: its requests take effect before the next step.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "tests/engine/engine_harness.h"

namespace ringside {

/// Acts when `tokens` tokens have been delivered, or, with 0, when the turn starts.
class ActingSink final : public TokenSink {
 public:
  ActingSink(std::shared_ptr<WaitingSink> told, size_t tokens, std::function<void()> act)
      : told_(std::move(told)), left_(tokens), act_(std::move(act)) {}
  void OnStart(const CacheReport& report) override {
    told_->OnStart(report);
    if (left_ == 0) act_();
  }
  void OnTokens(const TokenDelta& delta) override {
    told_->OnTokens(delta);
    if (left_ > 0 && --left_ == 0) act_();
  }
  void OnEnd(const TurnEnd& end) override { told_->OnEnd(end); }

 private:
  const std::shared_ptr<WaitingSink> told_;
  size_t left_;
  const std::function<void()> act_;
};

}  // namespace ringside
