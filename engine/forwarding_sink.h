// A sink before another one: passes every call on. Base of sinks that also watch a turn. THREAD: as TokenSink.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/token_sink.h"

namespace ringside {

class ForwardingSink : public TokenSink {
 public:
  explicit ForwardingSink(std::shared_ptr<TokenSink> next) : next_(std::move(next)) {}

  void OnQueued(int64_t position) override { next_->OnQueued(position); }
  void OnStart(const CacheReport& report) override { next_->OnStart(report); }
  void OnScored(std::vector<OutputToken> tokens) override { next_->OnScored(std::move(tokens)); }
  void OnEmbedded(std::vector<float> mean) override { next_->OnEmbedded(std::move(mean)); }
  void OnTokens(const TokenDelta& delta) override { next_->OnTokens(delta); }
  void OnEnd(const TurnEnd& end) override { next_->OnEnd(end); }

 protected:
  /// Lets go of the next sink. No call may follow.
  void Release() { next_.reset(); }

 private:
  std::shared_ptr<TokenSink> next_;
};

}  // namespace ringside
