// Entries that the journal has accepted and not reported yet: their number and bytes, which its limits bound, and which
// sessions they are of.
// THREAD: any.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

namespace ringside {

class AcceptedEntries {
 public:
  struct Sums {
    size_t entries = 0, bytes = 0;
  };
  /// Returns the sums without it.
  Sums Add(const std::string& session, size_t bytes) {
    std::lock_guard lock(mutex_);
    const Sums before = sums_;
    ++sums_.entries, sums_.bytes += bytes;
    ++of_session_[session];
    return before;
  }
  /// It does not count for the limits any more: it is about to be reported. REQUIRES: it was added.
  void Subtract(size_t bytes) {
    std::lock_guard lock(mutex_);
    --sums_.entries, sums_.bytes -= bytes;
  }
  /// It was reported, or not accepted after all. REQUIRES: as above.
  void Remove(const std::string& session) {
    std::lock_guard lock(mutex_);
    const auto at = of_session_.find(session);
    if (--at->second == 0) of_session_.erase(at);
  }
  size_t entries() const {
    std::lock_guard lock(mutex_);
    return sums_.entries;
  }
  bool Has(const std::string& session) const {
    std::lock_guard lock(mutex_);
    return of_session_.contains(session);
  }

 private:
  mutable std::mutex mutex_;
  Sums sums_;
  std::unordered_map<std::string, size_t> of_session_;
};

}  // namespace ringside
