// The running turn of a session, from StartTurn to its end. Knows neither the journal nor the engine.
// Owned by its Session, used under the session's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/text/channels/channel_format.h"
#include "engine/turn_request.h"
#include "session/chat/timeline/timeline.h"
#include "session/turn/answer_events.h"
#include "session/turn/response.h"
#include "session/turn/turn_recorder.h"

namespace ringside {

struct ActiveTurn {
  ActiveTurn(TurnId turn_id, Timeline timeline) : id(turn_id), next(std::move(timeline)) {}

  TurnId id;
  std::shared_ptr<Response> response;
  Timeline next;            // timeline with this turn's input; the answer is added to it
  TurnRecorder recorder;    // its journal record and its stage
  AnswerEvents events;      // of its answer
  bool recomputed = false;  // the text before the turn changed, whatever the cache contains
  bool renumbers = false;   // its events are sent before they are durable: a crash may revoke them
  std::shared_ptr<const ChannelFormat> channels;  // of its answer; null = none
  std::vector<TokenId> begun_ids;                 // ids that the channel reader consumes first
  bool cut_in_reasoning = false;
  bool background = false;       // continues without listeners
  bool replayed = false;         // restored from the journal
  std::shared_ptr<void> permit;  // place among the owner's turns
};

}  // namespace ringside
