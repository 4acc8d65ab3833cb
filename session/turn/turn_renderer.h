// Renders a request to a turn: its input to token ids, its settings to a request of the engine and a journal record.
// Contents: the session's own window settings, limited by the server's. Owned by its Session; constant, so it is used
// without the session's lock. Takes time in proportion to the new text.
// THREAD: any.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "session/bound_context.h"
#include "session/chat/timeline/timeline.h"
#include "session/records.h"
#include "session/session_context.h"
#include "session/turn/active_turn.h"
#include "session/turn/turn_spec.h"

namespace ringside {

struct SettledReasoning;

/// A rendered turn that is not the running one yet.
struct RenderedTurn {
  ActiveTurn turn;
  TurnRequest request;
  std::vector<ItemImage> images;       // of request.images, which have no pictures yet
  std::vector<JournalRecord> records;  // of the turn and, before it, its images
};

/// An item of a timeline, with a new id.
Item MakeItem(NewItem item);

class TurnRenderer {
 public:
  TurnRenderer(BoundContext context, WindowOverrides window);
  /// Renders the turn's input after `base`.
  /// REQUIRES: `response` has its adapter.
  /// ERRORS: kInvalidArgument (context_length_exceeded and others), kNotFound for the adapter.
  Result<RenderedTurn> Render(const TurnSpec& spec, TurnId turn, std::shared_ptr<Response> response,
                              const Timeline& base) const;
  /// Returns the tokens before the turn's answer.
  /// ERRORS: as Render.
  Result<SharedList<TokenId>> InputTokens(const TurnSpec& spec, const Timeline& base) const;
  /// Sets the channels of the turn's answer, and the ids that their reader consumes first.
  void SetChannels(std::shared_ptr<const ChannelFormat> channels, ActiveTurn* turn) const;

  /// The session's own settings; the server's limits may be lower.
  const WindowOverrides& window() const { return window_; }
  int64_t session_len() const;
  /// The window of a cache with `pinned` pinned tokens.
  RingWindow Window(int64_t pinned) const;

 private:
  ClampedLimits Clamped(int64_t pinned) const;
  Result<SamplingParams> Sampling(const TurnSpec& spec) const;
  Result<SettledReasoning> Settle(const TurnSpec& spec) const;
  /// The result refers to `reasoning`.
  Codec CodecFor(const SettledReasoning& reasoning) const;
  void SetReasoning(SettledReasoning reasoning, ActiveTurn* turn, TurnRequest* request) const;

  const BoundContext context_;
  const WindowOverrides window_;
};

}  // namespace ringside
