// Brings what the engine says of one turn to its session. Owned by the engine until the turn's end.
#pragma once

#include <memory>
#include <utility>

#include "engine/token_sink.h"
#include "session/session.h"

namespace ringside {

class TurnSink final : public TokenSink {
 public:
  TurnSink(std::shared_ptr<Session> session, TurnId turn) : session_(std::move(session)), turn_(turn) {}
  void OnStart(const CacheReport& report) override { session_->OnStart(turn_, report); }
  void OnTokens(const TokenDelta& delta) override { session_->OnTokens(turn_, delta); }
  void OnEnd(const TurnEnd& end) override { session_->OnEnd(turn_, end); }

 private:
  const std::shared_ptr<Session> session_;
  const TurnId turn_;
};

}  // namespace ringside
