#include "session/listeners.h"

#include <algorithm>

namespace ringside {

void Listeners::Attach(const std::shared_ptr<EventSink>& sink, const std::string& session) {
  const std::shared_ptr<EventSink> old = attached_.lock();
  if (old != nullptr && old->connection() != sink->connection()) old->OnTakenOver(session);
  Fence(old != nullptr ? old->connection() : sink->connection(), sink->connection());
  attached_ = sink;
}

void Listeners::Fence(uint64_t old_connection, uint64_t new_connection) {
  constexpr size_t kMaxFenced = 64;
  std::erase(fenced_, new_connection);
  if (old_connection != new_connection) fenced_.push_back(old_connection);
  if (fenced_.size() > kMaxFenced) fenced_.pop_front();
}

bool Listeners::Fenced(uint64_t connection) const {
  return std::find(fenced_.begin(), fenced_.end(), connection) != fenced_.end();
}

void Listeners::Gone(const std::string& session) {
  if (const std::shared_ptr<EventSink> attached = attached_.lock()) attached->OnGone(session);
  attached_.reset();
}

bool Listeners::Send(const TurnEvent& event, const EventCounts& sent) {
  sent_ = sent;
  return Notify([&](EventSink& sink) { sink.OnEvent(event); });
}

bool Listeners::Notify(const std::function<void(EventSink&)>& notify) {
  const std::shared_ptr<EventSink> attached = attached_.lock();
  bool attached_notified = attached == nullptr;
  std::erase_if(turn_, [&](const std::weak_ptr<EventSink>& weak) {
    const std::shared_ptr<EventSink> sink = weak.lock();
    if (sink == nullptr) return true;
    attached_notified = attached_notified || sink->connection() == attached->connection();
    notify(*sink);
    return false;
  });
  if (!attached_notified) notify(*attached);
  return attached != nullptr || !turn_.empty();
}

}  // namespace ringside
