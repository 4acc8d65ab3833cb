// Places of admitted connections, counted per owner: no owner takes every place. A full owner's longest idle connection
// gives way to its next one. A full server evicts a connection that is idle, or has waited for its client for a while,
// of the owner with the most such connections. Owned by the ServerContext; any thread.
#pragma once

#include <chrono>
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
    kFull,       // the server is full, and no owner with more connections has one that may be evicted
  };
  /// `most_of` returns the limit of an owner; null = `most` for each. It is called without the lock. A full server
  /// evicts connections that have waited for their clients for `patience`.
  ConnectionPlaces(int64_t most, std::function<int64_t(const std::string& owner)> most_of,
                   std::chrono::milliseconds patience)
      : most_(most), most_of_(std::move(most_of)), patience_(patience) {}

  /// Takes a place for `owner` and sets `place`, never to 0. A connection that holds one already (`place` other than 0)
  /// keeps it, or changes its owner; `place` becomes 0 on a refusal. May evict one idle connection.
  Verdict Take(const std::string& owner, uint64_t* place);
  void GiveBack(uint64_t place);

  /// The connection has nothing to do and may be evicted from now on: `evict` is called at most once, on any thread,
  /// without the lock; it must not block. The place is gone by then. An idle connection keeps its time.
  void SetIdle(uint64_t place, std::function<void()> evict);
  /// The connection waits for its client, to send the rest of a request, or the next one, or to read an answer. A full
  /// server may evict it, as above, once it has waited for `patience`. A waiting or idle connection keeps its time.
  void SetWaiting(uint64_t place, std::function<void()> evict);
  /// The connection works again; false if it has been evicted.
  bool SetBusy(uint64_t place);

  int64_t taken() const;
  int64_t taken_by(const std::string& owner) const;
  /// Connections evicted since the start.
  uint64_t evicted() const;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class State { kBusy, kWaiting, kIdle };
  struct Place {
    std::string owner;
    State state = State::kBusy;
    uint64_t since = 0;  // on the clock of `events_`; 0 = busy
    TimePoint waits_since;
    std::function<void()> evict;
  };
  struct Owner {
    int64_t places = 0;
    std::map<uint64_t, uint64_t> idle, waiting;  // places by their `since`
  };
  using Owners = std::unordered_map<std::string, Owner>;

  void RemoveLocked(uint64_t place);
  void SetStateLocked(Place& place, uint64_t number, State state);
  /// The place of this owner to evict on a full server: the longest idle one, else the one that has waited longest, if
  /// for `patience`; 0 = none.
  uint64_t VictimLocked(const Owner& owner, TimePoint now) const;
  /// The owner with the most connections that are idle or wait, among those with more than `more_than` places and one
  /// to evict; end() if there is none.
  Owners::iterator LargestLocked(int64_t more_than, TimePoint now);
  std::function<void()> EvictLocked(uint64_t place);

  const int64_t most_;
  const std::function<int64_t(const std::string&)> most_of_;
  const std::chrono::milliseconds patience_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Place> places_;
  Owners owners_;  // with at least one place
  uint64_t last_place_ = 0, events_ = 0, evicted_ = 0;
};

}  // namespace ringside
