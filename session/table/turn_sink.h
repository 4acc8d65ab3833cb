// Carries the engine's events of one turn to its session by way of the journal, so that listeners only see what is
// durable. Owned by the engine until the turn ends.
// THREAD: the engine's; results arrive on the journal's, or that of its DeltaLog.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "engine/token_sink.h"
#include "session/journal/journal.h"
#include "session/session.h"

namespace ringside {

class TurnSink final : public TokenSink {
 public:
  /// `journal`: null if the session is not durable. `tokens`: the bucket that pays for the turn: for the prompt at its
  /// start, for the answer as it is written, and for other rows, such as those of beams, at its end. A turn that ends
  /// within its prompt is refunded the rest of the prompt.
  TurnSink(std::shared_ptr<Session> session, TurnId turn, Journal* journal, Durability durability, bool logprobs,
           std::shared_ptr<TokenBucket> tokens, const Clock& clock);
  void OnQueued(int64_t position) override {
    session_->WithTurns([&](TurnProgress& turns) { turns.OnQueued(turn_, position); });
  }
  void OnStart(const CacheReport& report) override;
  void OnScored(std::vector<OutputToken> tokens) override {
    session_->WithTurns([&](TurnProgress& turns) { turns.OnScored(turn_, std::move(tokens)); });
  }
  void OnEmbedded(std::vector<float> mean) override {
    session_->WithTurns([&](TurnProgress& turns) { turns.OnEmbedded(turn_, std::move(mean)); });
  }
  void OnTokens(const TokenDelta& delta) override;
  void OnEnd(const TurnEnd& end) override;

 private:
  using OnDurable = std::function<void(const JournalPosition& recorded)>;
  /// Draws from the owner's bucket.
  void Charge(int64_t tokens);
  void Interrupt(const Status& cause);
  /// Calls `durable` once the records, and those held back before them, are durable.
  void Write(JournalRecord record, OnDurable durable);

  const std::shared_ptr<Session> session_;
  const TurnId turn_;
  Journal* const journal_;
  const Durability durability_;
  const bool logprobs_;
  const std::shared_ptr<TokenBucket> tokens_;
  const Clock& clock_;
  int64_t charged_ = 0, written_ = 0;  // tokens
  size_t recorded_tokens_ = 0;
  struct Progress {
    std::atomic<int64_t> pending{0};  // writes
    JournalPosition last;             // of the last reported write; valid while none is pending
  };
  std::vector<JournalRecord> kept_;  // Durability::kTurn: already sent, written with the turn's end
  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
};

}  // namespace ringside
