#include "ws/app/app_engine.h"

#include <memory>
#include <utility>

#include "ws/metrics.h"

namespace ringside {
AppEngine::AppEngine(TurnEngine& engines, Metrics& metrics) : engines_(engines), metrics_(metrics) {}

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
void AppEngine::Erase(TimelineId timeline, const std::string& owner) { engines_.Erase(timeline, owner); }
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

}  // namespace ringside
