// Places for admitted connections, counted per owner so that no owner takes them all. An owner at its limit loses its
// longest idle connection to its next one. A full server evicts a connection that is idle or has waited for its client,
// from the owner with the most such connections. Owned by the ServerContext.
// THREAD: any.
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
    kOwnerFull,  // the owner is at its limit and has no idle connection
    kFull,       // the server is full and no larger owner has an evictable connection
  };
  /// `most_of` returns an owner's limit and is called without the lock; null = `most` for every owner. A full server
  /// evicts connections that have waited for their clients for `patience`.
  ConnectionPlaces(int64_t most, std::function<int64_t(const std::string& owner)> most_of,
                   std::chrono::milliseconds patience)
      : most_(most), most_of_(std::move(most_of)), patience_(patience) {}

  /// Takes a place for `owner` and sets `place` (never to 0). A connection that already holds one (`place` != 0) keeps
  /// it or changes its owner; a refusal sets `place` to 0. May evict one idle connection.
  Verdict Take(const std::string& owner, uint64_t* place);
  void GiveBack(uint64_t place);

  /// Marks the connection idle and evictable. `evict` is called at most once, on any thread, without the lock, after
  /// the place has been released; it must not block. A connection that is already idle keeps its time.
  void SetIdle(uint64_t place, std::function<void()> evict);
  /// Marks the connection as waiting for its client: for the rest of a request, for the next one, or for an answer to
  /// be read. A full server may evict it as above after `patience`. A connection that is already waiting or idle keeps
  /// its time.
  void SetWaiting(uint64_t place, std::function<void()> evict);
  /// Marks the connection busy again; false if it has been evicted.
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
    uint64_t since = 0;  // clock of `events_`; 0 = busy
    TimePoint waits_since;
    std::function<void()> evict;
  };
  struct Owner {
    int64_t places = 0;
    std::map<uint64_t, uint64_t> idle, waiting;  // places by `since`
  };
  using Owners = std::unordered_map<std::string, Owner>;

  void RemoveLocked(uint64_t place);
  void SetStateLocked(Place& place, uint64_t number, State state);
  /// Returns this owner's place to evict on a full server: the longest idle one, otherwise the one that has waited
  /// longest if that is at least `patience`; 0 = none.
  uint64_t VictimLocked(const Owner& owner, TimePoint now) const;
  /// Returns the owner with the most idle or waiting connections among those with more than `more_than` places and an
  /// evictable one; end() if there is none.
  Owners::iterator LargestLocked(int64_t more_than, TimePoint now);
  std::function<void()> EvictLocked(uint64_t place);

  const int64_t most_;
  const std::function<int64_t(const std::string&)> most_of_;
  const std::chrono::milliseconds patience_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Place> places_;
  Owners owners_;  // owners with at least one place
  uint64_t last_place_ = 0, events_ = 0, evicted_ = 0;
};

}  // namespace ringside
