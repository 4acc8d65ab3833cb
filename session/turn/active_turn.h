// The turn that runs in a session: from StartTurn to its end, with one stage. Owned by its Session, under the session's
// lock; knows neither the journal nor the engine.
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
  /// A turn is heard of once its record is durable and the engine has taken it; the two come in either order.
  enum class Stage {
    kBegun,
    kRecorded,   // its record is durable
    kRefused,    // its record could not be made durable; see `refused`
    kSubmitted,  // the engine has it
    kHeard,      // announced: listeners know the response
  };
  /// What the session has to do now.
  enum class Next { kWait, kAnnounce, kFail };

  ActiveTurn(TurnId turn_id, Timeline timeline) : next(std::move(timeline)), id_(turn_id) {}

  TurnId id() const { return id_; }
  bool heard() const { return stage_ == Stage::kHeard; }
  bool recorded() const { return stage_ == Stage::kRecorded || heard(); }
  /// The record is durable, or, with an error, it is not and will not be.
  Next Recorded(const Status& status);
  /// The engine has taken the turn.
  Next Submitted();
  void Announce() { stage_ = Stage::kHeard; }
  /// Makes the reader of the response's text. Takes time in proportion to the tools' bytes.
  void MakeReader();
  /// The response's text as it was sampled.
  std::string_view sampled_text() const { return reader.transcodes() ? sampled : response->text; }

  std::shared_ptr<Response> response;
  std::shared_ptr<const Response> begun;    // `response` as it was announced, for its events
  Timeline next;                            // the timeline with this turn's input, to which the answer will be added
  std::optional<JournalEntry> record;       // until it is given to the journal
  bool recomputed = false;                  // the text before the turn changed, whatever the cache then found
  bool renumbers = false;                   // its events are told before they are durable: a crash may take them back
  Status refused;                           // why its record could not be made durable
  ToolCallReader reader;                    // of the response's text
  std::string sampled;                      // the response's text in the model's syntax, where the reader transcodes
  std::string name, arguments;              // of the tool call that it is in, so far
  std::vector<TokenId> output;              // sampled and told
  std::vector<OutputToken> held;            // with logprobs: tokens whose text has not come yet
  std::vector<OutputToken> held_reasoning;  // with token ids: of the reasoning and its markup, not sent yet
  int64_t unheard_tokens = 0;               // since somebody listened last
  std::shared_ptr<const ChannelFormat> channels;  // of its answer; null = it has none
  std::vector<TokenId> begun_ids;                 // which the channels' reader takes first
  bool cut_in_reasoning = false;
  bool background = false;       // nobody need listen
  bool replayed = false;         // read from the journal: it ran before
  int64_t queue_position = 0;    // 0 = none was told
  std::shared_ptr<void> permit;  // of the owner's turns

 private:
  TurnId id_;
  Stage stage_ = Stage::kBegun;
};

}  // namespace ringside
