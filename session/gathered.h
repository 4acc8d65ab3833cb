// Queue with many producers; one consumer drains it at once. Has its own lock.
// THREAD: any.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

namespace ringside {

template <class T>
class Gathered {
 public:
  void Add(T value) {
    std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
  }
  std::vector<T> Take() {
    std::lock_guard lock(mutex_);
    return std::exchange(values_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<T> values_;
};

}  // namespace ringside
