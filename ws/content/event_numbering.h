// Sequence numbering of the Responses protocol's events (responses_events.h), also used by other protocols.
#pragma once

#include "session/turn/event_numbers.h"

namespace ringside {

inline constexpr EventNumbers kResponsesNumbers{.answer = 2,
                                                .warm_up = 1,
                                                .opened = 2,
                                                .piece = 1,
                                                .message_ended = 3,
                                                .call = 1,
                                                .call_piece = 1,
                                                .call_ended = 2,
                                                .ended = 4,
                                                .ended_bare = 1,
                                                .compaction = 2,
                                                .reasoning_opened = 2,
                                                .reasoning_piece = 1,
                                                .reasoning_ended = 3};

}  // namespace ringside
