#include "ws/app_turns.h"

#include <memory>
#include <utility>

namespace ringside {

class TurnRegistry::Sink final : public TokenSink {
 public:
  Sink(std::shared_ptr<TokenSink> next, TurnRegistry& registry, TurnId turn)
      : next_(std::move(next)), registry_(registry), turn_(turn) {}

  void OnQueued(int64_t position) override { next_->OnQueued(position); }
  void OnStart(const CacheReport& report) override { next_->OnStart(report); }
  void OnTokens(const TokenDelta& delta) override { next_->OnTokens(delta); }
  void OnEnd(const TurnEnd& end) override {
    next_->OnEnd(end);
    next_.reset();  // before anyone is told that the turn is over
    registry_.Remove(turn_);
  }

 private:
  std::shared_ptr<TokenSink> next_;
  TurnRegistry& registry_;
  const TurnId turn_;
};

Status TurnRegistry::Submit(Engine& engine, TurnRequest request) {
  const TurnId turn = request.turn;
  {
    std::lock_guard lock(mutex_);
    turns_.insert(turn);
  }
  request.sink = std::make_shared<Sink>(std::move(request.sink), *this, turn);
  Status status = engine.Submit(std::move(request));
  if (!status.ok()) Remove(turn);
  return status;
}

size_t TurnRegistry::size() const {
  std::lock_guard lock(mutex_);
  return turns_.size();
}

void TurnRegistry::CancelAll(Engine& engine) const {
  std::vector<TurnId> turns;
  {
    std::lock_guard lock(mutex_);
    turns.assign(turns_.begin(), turns_.end());
  }
  for (const TurnId turn : turns) engine.Cancel(turn);
}

bool TurnRegistry::WaitUntilNone(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return removed_.wait_for(lock, time, [this] { return turns_.empty(); });
}

void TurnRegistry::Remove(TurnId turn) {
  std::lock_guard lock(mutex_);
  turns_.erase(turn);
  if (turns_.empty()) removed_.notify_all();
}

}  // namespace ringside
