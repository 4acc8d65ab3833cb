// A workload with predictable records, so that a journal's content can be checked from outside: record n of a session
// is a function of the session's name and n.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "session/journal/journal.h"

namespace ringside {

JournalRecord ExpectedRecord(const std::string& session, uint64_t seq);
std::string ExpectedSummary(const std::string& session);

/// The events of a session, in the order reported.
struct JournalEvent {
  enum class Kind : uint8_t { kAcknowledged = 'A', kEraseAsked = 'e', kErased = 'E' };
  Kind kind = Kind::kAcknowledged;
  uint64_t seq = 0;  // kAcknowledged
  std::string session;
};

/// Writes random changes to a journal: creates, extends and erases sessions, with several changes always in flight.
/// `tell` receives erasures before they are requested, and acknowledgements.
class JournalWorkload {
 public:
  JournalWorkload(Journal& journal, std::string prefix, uint32_t seed, std::function<void(const JournalEvent&)> tell);
  /// Makes about `changes` changes. Callbacks may still arrive until the journal is destroyed.
  void Run(int changes);

 private:
  void Append(const std::string& session, bool create);

  Journal& journal_;
  const std::string prefix_;
  std::mt19937 random_;
  const std::function<void(const JournalEvent&)> tell_;
  std::map<std::string, uint64_t> issued_;  // the last record's number
  uint64_t made_ = 0;
};

/// The record outside of the journal, kept across crashes.
class JournalOracle {
 public:
  void Hear(const JournalEvent& event);
  /// Compares a journal opened after a crash with the recorded events; returns "" if it is correct, else the fault.
  /// Reads sessions without events since the last check with probability 1 / `sample`. Then adopts the journal's
  /// content.
  std::string Check(const Journal& journal, std::mt19937& random, int sample);
  uint64_t acknowledged() const { return acknowledged_; }

 private:
  struct Fate {
    uint64_t seq = 0;
    bool erase_asked = false, erased = false, touched = true;
  };
  std::map<std::string, Fate> fates_;
  uint64_t acknowledged_ = 0;
};

}  // namespace ringside
