// What any thread adds and one thread now and then takes, all at once. Shared; it has a lock of its own.
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
