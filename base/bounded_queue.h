// A queue of at most `capacity` items between threads. Producers never block: a full queue refuses at once, so that
// overload shows as an error at the edge and not as latency inside. One consumer may block.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace ringside {

template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  /// Returns false and leaves `item` untouched if the queue is full or closed. THREAD: any.
  bool TryPush(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  /// Pushes beyond the capacity, for the few messages that must not be lost (cancel, close). Returns false if closed.
  bool PushUrgent(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  /// Returns all queued items, oldest first. With `wait`, blocks until there is an item or the queue is closed.
  std::vector<T> Drain(bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) ready_.wait(lock, [&] { return !items_.empty() || closed_; });
    return TakeAll();
  }

  /// As Drain, but waits at most `wait` for the first item.
  std::vector<T> DrainWithin(std::chrono::nanoseconds wait) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, wait, [&] { return !items_.empty() || closed_; });
    return TakeAll();
  }

  void Close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }
  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  std::vector<T> TakeAll() {  // REQUIRES: mutex_ held
    std::vector<T> out(std::make_move_iterator(items_.begin()), std::make_move_iterator(items_.end()));
    items_.clear();
    return out;
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace ringside
