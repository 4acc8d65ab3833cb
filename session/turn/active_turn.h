// The running turn of a session, from StartTurn to its end, with one stage. Knows neither the journal nor the engine.
// Owned by its Session, used under the session's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "engine/text/channels/channel_format.h"
#include "engine/turn_request.h"
#include "session/chat/timeline.h"
#include "session/journal/journal.h"
#include "session/tools/tool_calls.h"
#include "session/turn/response.h"

namespace ringside {

class ActiveTurn {
 public:
  /// A turn is announced once its record is durable and the engine has accepted it, in either order.
  enum class Stage {
    kBegun,
    kRecorded,   // its record is durable
    kRefused,    // its record could not be made durable; see `refused`
    kSubmitted,  // accepted by the engine
    kAnnounced,  // announced: listeners know the response
  };
  /// The session's next action.
  enum class Next { kWait, kAnnounce, kFail };

  ActiveTurn(TurnId turn_id, Timeline timeline) : next(std::move(timeline)), id_(turn_id) {}

  TurnId id() const { return id_; }
  bool heard() const { return stage_ == Stage::kAnnounced; }
  bool recorded() const { return stage_ == Stage::kRecorded || heard(); }
  /// The record is durable, or failed with `status`.
  Next Recorded(const Status& status);
  /// The engine has accepted the turn.
  Next Submitted();
  void Announce() { stage_ = Stage::kAnnounced; }
  /// Creates the reader of the response's text. Takes time in proportion to the tools' bytes.
  void MakeReader();
  /// The response's text as sampled.
  std::string_view sampled_text() const { return reader.transcodes() ? sampled : response->text; }

  std::shared_ptr<Response> response;
  std::shared_ptr<const Response> begun;    // `response` when it was announced, for its events
  Timeline next;                            // timeline with this turn's input; the answer is added to it
  std::optional<JournalEntry> record;       // until it is passed to the journal
  bool recomputed = false;                  // the text before the turn changed, whatever the cache contains
  bool renumbers = false;                   // its events are sent before they are durable: a crash may revoke them
  Status refused;                           // reason why its record could not be made durable
  ToolCallReader reader;                    // parses the response's text
  std::string sampled;                      // the response's text in the model's syntax, if the reader transcodes
  std::string name, arguments;              // of the current tool call so far
  std::vector<TokenId> output;              // sampled and delivered ids
  std::vector<OutputToken> held;            // with logprobs: tokens whose text is incomplete
  std::vector<OutputToken> held_reasoning;  // with token ids: unsent tokens of the reasoning and its markup
  int64_t detached_tokens = 0;              // since the last listener left
  std::shared_ptr<const ChannelFormat> channels;  // of its answer; null = none
  std::vector<TokenId> begun_ids;                 // ids that the channel reader consumes first
  bool cut_in_reasoning = false;
  bool background = false;       // continues without listeners
  bool replayed = false;         // restored from the journal
  int64_t queue_position = 0;    // last reported; 0 = none
  std::shared_ptr<void> permit;  // place among the owner's turns

 private:
  TurnId id_;
  Stage stage_ = Stage::kBegun;
};

}  // namespace ringside
