// A workload whose every record can be told from its place, so that what a journal holds can be checked from outside:
// record n of a session is a function of the session's name and n.
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

/// What happened to a session, in the order in which it was said.
struct JournalEvent {
  enum class Kind : uint8_t { kAcknowledged = 'A', kEraseAsked = 'e', kErased = 'E' };
  Kind kind = Kind::kAcknowledged;
  uint64_t seq = 0;  // kAcknowledged
  std::string session;
};

/// Writes random changes into a journal until `more` says no: sessions are made, added to, erased; several changes are
/// always on their way. `tell` hears of erasures before they are asked for, and of what is acknowledged.
class JournalWorkload {
 public:
  JournalWorkload(Journal& journal, std::string prefix, uint32_t seed, std::function<void(const JournalEvent&)> tell);
  /// Makes about `changes` changes. Callbacks may still come afterwards, until the journal is gone.
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
  /// Compares a journal opened after a crash with what was heard; empty = as it must be, else what is wrong. Sessions
  /// not heard of since the last check are read with a chance of 1 in `sample`. Then takes what is there for true.
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
