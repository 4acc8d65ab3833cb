// The journal record of a running turn, and the turn's stage: a turn is announced once its record is durable and
// the engine has accepted it, in either order. Knows neither the journal nor the engine. Owned by its ActiveTurn, used
// under the session's lock.
#pragma once

#include <optional>
#include <utility>

#include "base/status.h"
#include "session/journal/journal.h"

namespace ringside {

class TurnRecorder {
 public:
  /// The session's next action.
  enum class Next { kWait, kAnnounce, kFail };

  /// Sets the entry to append; nullopt: the turn is not stored.
  /// REQUIRES: neither Recorded nor Submitted was called.
  void SetEntry(std::optional<JournalEntry> entry) { entry_ = std::move(entry); }
  /// True until the entry is passed to the journal.
  bool has_entry() const { return entry_.has_value(); }
  /// REQUIRES: has_entry().
  /// ENSURES: !has_entry().
  JournalEntry TakeEntry() { return *std::exchange(entry_, std::nullopt); }

  /// The record is durable, or failed with `status`. A turn that is not stored counts as durable.
  Next Recorded(const Status& status);
  /// The engine has accepted the turn.
  Next Submitted();
  /// ENSURES: announced(). A later Recorded or Submitted returns kWait.
  void Announce() { stage_ = Stage::kAnnounced; }

  bool announced() const { return stage_ == Stage::kAnnounced; }
  bool recorded() const { return stage_ == Stage::kRecorded || announced(); }
  /// Reason why the record could not be made durable.
  const Status& refused() const { return refused_; }

 private:
  enum class Stage {
    kBegun,
    kRecorded,   // its record is durable
    kRefused,    // its record could not be made durable
    kSubmitted,  // accepted by the engine
    kAnnounced,  // clients know the response
  };

  std::optional<JournalEntry> entry_;
  Stage stage_ = Stage::kBegun;
  Status refused_;
};

}  // namespace ringside
