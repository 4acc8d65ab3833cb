// The running turn of a session: takes the events of the engine and of the journal, and ends the turn in the
// conversation. Contents: the turn and the listeners of its events. Owned by its Session; every function is called
// under the session's lock. Calls nothing of the engine but Cancel. THREAD: any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "session/bound_context.h"
#include "session/conversation.h"
#include "session/listeners.h"
#include "session/session_context.h"
#include "session/session_journal.h"
#include "session/turn/active_turn.h"

namespace ringside {

class TurnProgress {
 public:
  struct Hooks {
    std::function<void()> finished;  // a turn has ended and was removed
    std::function<void()> changed;   // the session's summary is outdated
  };
  /// REQUIRES: `conversation` and `journal` outlive this object.
  TurnProgress(BoundContext context, std::string key, std::string owner, Conversation* conversation,
               SessionJournal* journal, Hooks hooks);
  TurnProgress(const TurnProgress&) = delete;
  TurnProgress& operator=(const TurnProgress&) = delete;

  std::optional<ActiveTurn>& running() { return running_; }
  const std::optional<ActiveTurn>& running() const { return running_; }
  bool IsUnknown(const Status& failed) const;
  bool Runs(TurnId turn) const { return running_ && running_->id == turn; }
  Listeners& listeners() { return listeners_; }
  const Listeners& listeners() const { return listeners_; }
  /// Reason why the turn is about to be cut; "" if none.
  std::string IncompleteReason(TurnId turn) const { return Runs(turn) ? running_->response->incomplete_reason : ""; }

  /// Makes a turn the running one.
  /// ENSURES: its events are sent to listeners().
  ActiveTurn& Begin(ActiveTurn turn);
  /// Removes the running turn, as if it had never existed.
  void Drop();

  // Each of these does nothing if `turn` is not the running one.
  /// Its journal record is durable, or failed with `status`.
  void Recorded(TurnId turn, const Status& status);
  /// The engine accepted the turn: announces it, unless its record is not durable yet.
  void Submitted(TurnId turn);
  /// Ends the turn as incomplete for this reason.
  void EndEarly(TurnId turn, const std::string& reason);

  // From TurnSink, for the running turn alone.
  /// The turn is queued at `position`.
  void OnQueued(TurnId turn, int64_t position);
  /// Log probabilities of the turn's prompt. Such turns are never in the journal.
  void OnScored(TurnId turn, std::vector<OutputToken> tokens);
  void OnEmbedded(TurnId turn, std::vector<float> mean);
  // Durable progress. `recorded` is the journal's position ({} = nothing was written).
  void OnStart(TurnId turn, const CacheReport& report, const JournalPosition& recorded);
  void OnTokens(TurnId turn, const TokenDelta& delta, const JournalPosition& recorded);
  void OnEnd(TurnId turn, const TurnEnd& end, double completed_at, const JournalPosition& recorded);
  /// The server cannot finish the answer (InterruptionOf): the turn ends with the delivered text.
  void OnInterrupted(TurnId turn, const Status& cause, const JournalPosition& recorded);
  /// A write failed: the turn ends with its durable text.
  void OnLost(TurnId turn, const Status& status);

  // The steps of a turn, live and from the journal.
  // REQUIRES: running().
  /// Announces the turn, unless it was.
  void Announce();
  void Start(const CacheReport& report);
  /// ENSURES: !running().
  void Finish(const TurnEnd& end, double completed_at);
  /// Ends the running turn where its journal record ends: with all text of its ids, or (Interrupt) with the delivered
  /// text. `cause`: ok if unknown.
  /// ENSURES: !running().
  void Cut(Status cause = {});
  void Interrupt(Status cause = {});

 private:
  /// Acts on the running turn's new stage.
  void Advance(TurnRecorder::Next next);
  void Fail(const Status& status);
  void LogCut(const Status& cause) const;

  const BoundContext context_;
  const std::string key_, owner_;
  Conversation& conversation_;
  SessionJournal& journal_;
  const Hooks hooks_;
  std::optional<ActiveTurn> running_;
  Listeners listeners_;
};

}  // namespace ringside
