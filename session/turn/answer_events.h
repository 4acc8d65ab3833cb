// The events of a running answer: reads its tool calls, numbers its deltas and events, sends them to the session's
// listeners and adds them to its Response. Contents: the text parsed so far and the tokens that wait for their text.
// Owned by its ActiveTurn, used under the session's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/channels/channel_format.h"
#include "engine/text/tokenizer.h"
#include "engine/token_sink.h"
#include "session/chat/timeline/timeline.h"
#include "session/event_sink.h"
#include "session/listeners.h"
#include "session/tools/tool_calls.h"
#include "session/turn/response.h"

namespace ringside {

class AnswerEvents {
 public:
  AnswerEvents() = default;
  /// `tools`: the tool definitions of the timeline. Takes time in proportion to their bytes.
  /// REQUIRES: `response` has its CallPlace and its syntax.
  AnswerEvents(std::shared_ptr<Response> response, std::string_view tools);
  /// Sets the receivers of the events.
  /// REQUIRES: before any other call; `listeners` outlives this object.
  void SendTo(Listeners* listeners) { listeners_ = listeners; }

  /// Sends the response's creation, and its place in the queue if known.
  /// REQUIRES: called once.
  void Announce();
  /// The turn is queued at `position`; sent once the response is announced.
  void Queued(int64_t position);

  // REQUIRES: Announce was called.
  /// The computation has started. `reopened`: the existing part of an answer that is continued. `has_channels`: the
  /// message may be preceded by reasoning.
  void Start(const CacheReport& report, const std::optional<Item>& reopened, bool has_channels);
  /// Adds the step's tokens and their text. Ignored before Start.
  void Tokens(const TokenDelta& delta);
  /// Emits text of the delivered ids that the engine still holds back: it belongs to the answer now. Returns whether
  /// the answer was cut in its reasoning. `begun_ids`: consumed before the answer's ids.
  bool EmitHeldBack(const Tokenizer& tokenizer, const std::optional<Item>& reopened,
                    const std::shared_ptr<const ChannelFormat>& channels, const std::vector<TokenId>& begun_ids);
  /// Emits the held-back end of the answer's text. Ignored before Start.
  void EndText();
  /// Sends the end of the response.
  /// REQUIRES: the response has its final status.
  void End();

  /// Adds a token without text, such as the end of a turn; EndText sends it.
  void Hold(OutputToken token) { held_.push_back(std::move(token)); }
  /// Sampled and delivered ids.
  const std::vector<TokenId>& output() const { return output_; }
  /// Tokens since the last listener left.
  int64_t detached_tokens() const { return detached_tokens_; }
  /// Offset of the tool calls in the whole text of the answer, including `reopened`; -1 = none.
  int64_t CallsAt(const std::optional<Item>& reopened) const;
  /// The answer's text as the timeline stores it. Trims the part that `next` has if the text repeats its end. `cut`:
  /// the answer may be continued; `empty`: no token was sampled.
  SharedText StoredText(bool cut, bool empty, Timeline* next) const;

 private:
  /// Sends the event to the listeners and counts it.
  void Emit(TurnEvent event);
  void SendQueued();
  void OpenMessage();
  void EmitOpenCalls(const Item& reopened);
  void EmitReasoning(std::string_view text);
  void EndReasoning(bool whole);
  void EmitText(std::string_view text);
  void EmitPart(const CallPart& part);
  /// Emits bytes [begin, end) of the answer's text with the held tokens.
  void EmitPiece(size_t begin, size_t end);
  void EmitCallPart(const CallPart& part);
  void EmitStep(const CallStep& step);
  /// The response's text as sampled.
  std::string_view sampled_text() const { return reader_.transcodes() ? sampled_ : response_->text; }

  std::shared_ptr<Response> response_;
  Listeners* listeners_ = nullptr;
  std::shared_ptr<const Response> begun_;    // `response_` when it was announced, for its events
  ToolCallReader reader_;                    // parses the response's text
  std::string sampled_;                      // the response's text in the model's syntax, if the reader transcodes
  std::string name_, arguments_;             // of the current tool call so far
  std::vector<TokenId> output_;              // sampled and delivered ids
  std::vector<OutputToken> held_;            // with logprobs: tokens whose text is incomplete
  std::vector<OutputToken> held_reasoning_;  // with token ids: unsent tokens of the reasoning and its markup
  int64_t detached_tokens_ = 0;              // since the last listener left
  int64_t queue_position_ = 0;               // last reported; 0 = none
};

}  // namespace ringside
