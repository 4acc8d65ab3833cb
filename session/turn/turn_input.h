// What a turn makes of the timeline that its session has, how much that adds, and whether it is allowed. Takes time
// linear in the new text; large input is rendered as long work. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "cache/ring.h"
#include "session/chat/timeline/timeline.h"
#include "session/turn/turn_spec.h"

namespace ringside {

struct InputLimits {
  int64_t session_len = 0;       // tokens of the whole session
  int64_t max_input_tokens = 0;  // limit of one turn's rendered tokens; 0 = none
  std::string variables = {};    // TimelineHead::variables of the turn
};

struct TurnInput {
  Timeline next;            // rendered, with the answer opened
  size_t first_new = 0;     // index of the first item that was not rendered before: new input starts there
  bool recomputed = false;  // ids of the history changed
};

/// Runs `work`, which tokenises `bytes` of text: on the lane for long work (RunLongWork) from 256 KiB on. REQUIRES: the
/// caller holds no lock that calls of other clients need. ERRORS: as RunLongWork; kCancelled if the client of this
/// thread's request has left meanwhile, which also ends the tokenising early.
Status TokeniseLong(size_t bytes, const std::function<void()>& work);

/// Adds `items`, which are the turn's own, behind `base` and renders what is not rendered yet. Where the ids of `base`
/// were forgotten nobody knows what was computed before: new are the turn's own items alone, and only they are held to
/// max_input_tokens. A history that comes with its request is held to that as a whole, and new is what stands behind
/// its last answer. ERRORS: as TokeniseLong; kInvalidArgument: there is nothing to answer, or (context_length_exceeded)
/// it is too long by one of the limits; no more is tokenised then than fits.
Result<TurnInput> RenderInput(const TurnSpec& spec, std::vector<Item> items, const Timeline& base, const Codec& codec,
                              const InputLimits& limits);

/// ERRORS: kInvalidArgument (ContextOverflow) if `window` shows fewer tokens than the new input has, or than the whole
/// history has if the request carries it; no error if the turn truncates.
Status CheckShown(const TurnSpec& spec, const TurnInput& input, const RingWindow& window);
/// Tokens of the longest answer that `window` shows together with the tokens that CheckShown counts; at least 1. A turn
/// that truncates has room for 1,024 or a whole window at least.
int64_t RoomForAnswer(const TurnSpec& spec, const TurnInput& input, const RingWindow& window);

}  // namespace ringside
