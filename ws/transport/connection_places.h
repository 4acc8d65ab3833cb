// Places of admitted connections, counted per owner: no owner takes every place. A full owner's longest idle connection
// gives way to its next one; a full server takes the place from the owner that has the most. Owned by the
// ServerContext; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

namespace ringside {

class ConnectionPlaces {
 public:
  enum class Verdict {
    kTaken,
    kOwnerFull,  // the owner has its share, and none of its connections is idle
    kFull,       // the server is full, and no owner with more connections has an idle one
  };
  /// `most_of` returns the limit of an owner; null = `most` for each. It is called without the lock.
  ConnectionPlaces(int64_t most, std::function<int64_t(const std::string& owner)> most_of)
      : most_(most), most_of_(std::move(most_of)) {}

  /// Takes a place for `owner` and sets `place`, never to 0. A connection that holds one already (`place` other than 0)
  /// keeps it, or changes its owner; `place` becomes 0 on a refusal. May evict one idle connection.
  Verdict Take(const std::string& owner, uint64_t* place);
  void GiveBack(uint64_t place);

  /// From now on the connection may be evicted: `evict` is called at most once, on any thread, without the lock; it
  /// must not block. The place is gone by then. An idle connection keeps its time.
  void SetIdle(uint64_t place, std::function<void()> evict);
  /// The connection works again; false if it has been evicted.
  bool SetBusy(uint64_t place);

  int64_t taken() const;
  int64_t taken_by(const std::string& owner) const;
  /// Connections evicted since the start.
  uint64_t evicted() const;

 private:
  struct Place {
    std::string owner;
    uint64_t idle_since = 0;  // on the clock of `events_`; 0 = busy
    std::function<void()> evict;
  };
  struct Owner {
    int64_t places = 0;
    std::map<uint64_t, uint64_t> idle;  // places by their idle_since
  };
  using Owners = std::unordered_map<std::string, Owner>;

  void RemoveLocked(uint64_t place);
  /// The owner with the most places among those that have an idle one and more than `more_than`; end() if none has.
  Owners::iterator LargestLocked(int64_t more_than);
  std::function<void()> EvictLocked(Owner& owner);

  const int64_t most_;
  const std::function<int64_t(const std::string&)> most_of_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Place> places_;
  Owners owners_;  // with at least one place
  uint64_t last_place_ = 0, events_ = 0, evicted_ = 0;
};

}  // namespace ringside
