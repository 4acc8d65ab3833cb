// Queue of operations for the journal's thread. Small entries, such as the tokens of running turns, do not wait for
// large ones of other sessions: writes alternate between small ones, up to a bound, and a part of the large ones. The
// order within each session is kept. Owned by the Journal.
// THREAD: the journal's.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "session/journal/journal.h"

namespace ringside {

struct JournalOperation {
  enum class Kind { kAppend, kErase, kClaim, kRelease, kNote, kFlush };  // kNote: records the uptime only
  Kind kind = Kind::kAppend;
  JournalEntry entry;
  JournalDone done;
  size_t bytes = 0;
  uint64_t number = 0;  // order of acceptance, assigned by the queue
  // Set by the journal's thread:
  Status status;
  JournalPosition last;
};

class JournalLine {
 public:
  static constexpr size_t kLargeBytes = 64 << 10;  // larger operations count as large
  static constexpr size_t kWriteBytes = 1 << 20;   // limit after which a write takes no further operation

  /// Adds operations in order of acceptance.
  void Add(std::vector<JournalOperation> operations);
  bool empty() const { return small_.empty() && large_.empty() && flushes_.empty(); }
  /// True if more operations should be added before the next Take, because no small one is queued.
  bool wants_more() const { return small_.empty(); }
  /// Returns the operations of the next write, at least one, in the order to write and report them. A flush is returned
  /// after everything accepted before it.
  std::vector<JournalOperation> Take();

 private:
  std::deque<JournalOperation> small_, large_, flushes_;
  // number of queued large operations per session; later small ones of the session wait behind them
  std::unordered_map<std::string, size_t> sessions_in_large_;
  bool large_is_next_ = false;
  uint64_t last_number_ = 0;
};

}  // namespace ringside
