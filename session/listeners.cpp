#include "session/listeners.h"

#include <algorithm>
#include <utility>

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

bool Listeners::Watch(const std::shared_ptr<EventSink>& sink) {
  std::erase_if(watchers_, [&](const std::weak_ptr<EventSink>& weak) {
    const std::shared_ptr<EventSink> watcher = weak.lock();
    return watcher == nullptr || watcher->connection() == sink->connection();
  });
  if (watchers_.size() >= kMaxWatchers) return false;
  watchers_.push_back(sink);
  return true;
}

void Listeners::Changed(const std::string& session) {
  for (const std::weak_ptr<EventSink>& weak : watchers_) {
    if (const std::shared_ptr<EventSink> watcher = weak.lock()) watcher->OnChanged(session);
  }
}

bool Listeners::attached() const {
  return !attached_.expired() || std::ranges::any_of(watchers_, [](const auto& weak) { return !weak.expired(); });
}

void Listeners::Leave(const std::string& session, void (EventSink::*notify)(const std::string&)) {
  if (const std::shared_ptr<EventSink> attached = attached_.lock()) (*attached.*notify)(session);
  attached_.reset();
  for (const std::weak_ptr<EventSink>& weak : std::exchange(watchers_, {})) {
    if (const std::shared_ptr<EventSink> watcher = weak.lock()) (*watcher.*notify)(session);
  }
}

bool Listeners::Send(const TurnEvent& event, const EventCounts& sent) {
  sent_ = sent;
  return Notify([&](EventSink& sink) { sink.OnEvent(event); });
}

bool Listeners::Notify(const std::function<void(EventSink&)>& notify) {
  std::vector<uint64_t> notified;
  const auto once = [&](const std::weak_ptr<EventSink>& weak) {
    const std::shared_ptr<EventSink> sink = weak.lock();
    if (sink == nullptr || std::ranges::count(notified, sink->connection()) > 0) return sink != nullptr;
    notified.push_back(sink->connection());
    notify(*sink);
    return true;
  };
  // The requests of the turn come first: one connection may have started several choices.
  std::erase_if(turn_, [&](const std::weak_ptr<EventSink>& weak) {
    const std::shared_ptr<EventSink> sink = weak.lock();
    if (sink == nullptr) return true;
    notified.push_back(sink->connection());
    notify(*sink);
    return false;
  });
  const bool attached = once(attached_);
  std::erase_if(watchers_, [&](const std::weak_ptr<EventSink>& weak) { return !once(weak); });
  return attached || !turn_.empty() || !watchers_.empty();
}

}  // namespace ringside
