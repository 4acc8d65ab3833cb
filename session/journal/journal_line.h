// What waits for the journal's thread, in the order in which it is written. Small entries, as the tokens of running
// turns are, do not wait for large ones of other sessions: the next write takes either small ones, up to a bound, or a
// piece of the large ones, in turns. Each session keeps its own order. Owned by the Journal; its thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "session/journal/journal.h"

namespace ringside {

struct JournalOperation {
  enum class Kind { kAppend, kErase, kNote, kFlush };  // kNote: of the uptime, nothing else
  Kind kind = Kind::kAppend;
  JournalEntry entry;
  JournalDone done;
  size_t bytes = 0;
  uint64_t number = 0;  // by acceptance, given by the line
  // What the journal's thread makes of it:
  Status status;
  JournalPosition last;
};

class JournalLine {
 public:
  static constexpr size_t kLargeBytes = 64 << 10;  // more makes a large operation
  static constexpr size_t kWriteBytes = 1 << 20;   // a write takes no further operation when it has so many

  /// In the order of their acceptance.
  void Add(std::vector<JournalOperation> operations);
  bool empty() const { return small_.empty() && large_.empty() && flushes_.empty(); }
  /// More is to be added before the next Take: whatever is small enough to be written at once.
  bool wants_more() const { return small_.empty(); }
  /// What the next write takes, in the order in which it is to be written and told; at least one operation. A flush
  /// comes when nothing that was accepted before it is left.
  std::vector<JournalOperation> Take();

 private:
  std::deque<JournalOperation> small_, large_, flushes_;
  std::unordered_map<std::string, size_t> sessions_in_large_;  // what comes after waits there, too
  bool large_is_next_ = false;
  uint64_t last_number_ = 0;
};

}  // namespace ringside
