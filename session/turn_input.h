// How much a turn adds to what a session has, and whether that is allowed. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "cache/ring.h"
#include "session/chat/timeline.h"
#include "session/turn_spec.h"

namespace ringside {

/// Index of the first item of `next`, not rendered yet, that is new input: the turn's own items and those before them
/// that were added since the last answer and never computed. Where ids were forgotten nobody knows what was computed:
/// the turn's own items alone.
size_t FirstNewItem(const TurnSpec& spec, const Timeline& next);

/// `next` is rendered by now. kInvalidArgument (context_length_exceeded), naming both numbers, if the new input alone
/// has more than `max_tokens` (0 = no limit), or more than what `window` shows, unless the turn truncates.
Status CheckNewInput(const TurnSpec& spec, const Timeline& next, size_t first_new, const RingWindow& window,
                     int64_t max_tokens);

}  // namespace ringside
