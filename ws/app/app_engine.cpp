#include "ws/app/app_engine.h"

#include <future>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "engine/fleet/engine_fleet.h"
#include "ws/metrics.h"

namespace ringside {
namespace {

// Never an id of the session layer, which counts up from a random 52-bit number.
constexpr uint64_t kWarmUpId = std::numeric_limits<uint64_t>::max();

class WarmUpSink final : public TokenSink {
 public:
  void OnStart(const CacheReport&) override {}
  void OnTokens(const TokenDelta&) override {}
  void OnEnd(const TurnEnd& end) override {
    ended_.set_value(end.reason == FinishReason::kError ? end.error : Status::Ok());
  }
  std::future<Status> ended() { return ended_.get_future(); }

 private:
  std::promise<Status> ended_;
};

}  // namespace

AppEngine::AppEngine(EngineFleet& engines, Metrics& metrics) : engines_(engines), metrics_(metrics) {}

Status AppEngine::Submit(TurnRequest request) {
  if (refusing_) return Unavailable("The server is stopping.");
  const TurnId turn = request.turn;
  {
    std::lock_guard lock(mutex_);
    turns_.insert(turn);
  }
  request.sink =
      MakeMeasuringSink(std::move(request.sink), metrics_, SystemClock::Instance(), [this, turn] { Remove(turn); });
  Status status = engines_.Submit(std::move(request));
  if (!status.ok()) Remove(turn);
  return status;
}

void AppEngine::Cancel(TurnId turn) { engines_.Cancel(turn); }
void AppEngine::Close(TimelineId timeline) { engines_.Close(timeline); }
void AppEngine::Park(TimelineId timeline) { engines_.Park(timeline); }
void AppEngine::Fork(TimelineId from, TimelineId to, const std::string& from_owner, const std::string& to_owner) {
  engines_.Fork(from, to, from_owner, to_owner);
}
void AppEngine::Erase(TimelineId timeline, const std::string& owner) { engines_.Erase(timeline, owner, nullptr); }
void AppEngine::Prefetch(const std::string& owner) { engines_.Prefetch(owner); }
std::optional<CacheSource> AppEngine::Where(const std::string& owner) const { return engines_.Where(owner); }

size_t AppEngine::turns() const {
  std::lock_guard lock(mutex_);
  return turns_.size();
}

bool AppEngine::WaitUntilNone(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return removed_.wait_for(lock, time, [this] { return turns_.empty(); });
}

void AppEngine::Remove(TurnId turn) {
  std::lock_guard lock(mutex_);
  turns_.erase(turn);
  if (turns_.empty()) removed_.notify_all();
}

Status WarmUp(Engine& engine, const TokenizerData& data) {
  const auto sink = std::make_shared<WarmUpSink>();
  TurnRequest request;
  request.turn = kWarmUpId;
  request.timeline = kWarmUpId;
  const TokenId any = data.bos.value_or(data.eos.value_or(0));
  request.tokens = {any, any};  // with an encoder, the second token starts the answer
  request.message_starts = {0};
  request.window = {.pinned = 1, .memory_len = engine.options().memory_len, .eviction = Eviction::kTurn};
  request.sampling.temperature = 0;
  request.max_tokens = 2;
  request.sink = sink;
  std::future<Status> ended = sink->ended();
  RETURN_IF_ERROR(engine.Submit(std::move(request)));
  RETURN_IF_ERROR(ended.get());
  engine.Close(kWarmUpId);
  std::promise<void> settled;  // the turn is no longer counted
  engine.Ping([&] { settled.set_value(); });
  settled.get_future().wait();
  return Status::Ok();
}

}  // namespace ringside
