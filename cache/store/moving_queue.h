// FIFO queue of the moving thread's work. Placements of waiting snapshots carry their owner, so that a newer snapshot
// can cancel them. Owned by TieredStore. THREAD: any. Bounded by the waiting snapshots and erasures, however long one
// move takes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "cache/store/tiered_store.h"

namespace ringside {

class MovingQueue {
 public:
  struct Move {
    std::function<void()> work;
    std::string owner;  // of the snapshot that `work` places; empty = other work
    TieredStore::Done done;
  };

  void Push(Move move);
  /// Removes the oldest placement of this owner's snapshot; nullopt if there is none.
  std::optional<Move> Cancel(const std::string& owner);
  /// The oldest move. Blocks until there is one, at most `wait_ms` (0 = no limit): after that its `work` is null.
  /// nullopt once the queue is closed and empty.
  std::optional<Move> Pop(int64_t wait_ms);
  /// The oldest move, without waiting; nullopt if there is none.
  std::optional<Move> TryPop();
  void Close();

 private:
  Move PopFront();  // REQUIRES: mutex_ held, not empty

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Move> moves_;
  bool closed_ = false;
};

}  // namespace ringside
