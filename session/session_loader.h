// Restores a session from its journal: applies its records in order, through the functions of the live session, without
// listeners. Contents: references to the parts of the session. Used under the session's lock, during the load alone.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "session/conversation.h"
#include "session/image_records.h"
#include "session/session_context.h"
#include "session/session_journal.h"
#include "session/turn/turn_progress.h"
#include "session/turn/turn_renderer.h"

namespace ringside {

class SessionLoader {
 public:
  /// `id`: of the conversation; empty for a chain.
  /// REQUIRES: all arguments outlive this object.
  SessionLoader(const SessionContext& context, const std::string& id, const TurnRenderer& renderer,
                Conversation* conversation, SessionJournal* journal, TurnProgress* turns)
      : context_(&context),
        id_(id),
        renderer_(renderer),
        conversation_(*conversation),
        journal_(*journal),
        turns_(*turns) {}
  /// Applies one record, except the one that creates the session.
  /// ERRORS: kMismatch for a record of a newer version; others: a damaged record. The session is then incomplete.
  Status Apply(const JournalRecord& record);

 private:
  Status ApplyInterrupted(std::string_view payload);
  Status ApplyRetokenised(std::string_view payload);
  Status ApplyTurn(std::string_view payload);
  Status ApplyTokens(std::string_view payload);
  Status ApplyEnd(std::string_view payload);
  Status ApplyTimeline(std::string_view payload);

  const SessionContext* const context_;
  const std::string& id_;
  const TurnRenderer& renderer_;
  Conversation& conversation_;
  SessionJournal& journal_;
  TurnProgress& turns_;
  ImageFiles images_;
};

}  // namespace ringside
