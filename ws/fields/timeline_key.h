// The name that a client has for a conversation, in a request that carries its whole history. It narrows the search for
// the timeline (TurnSpec::timeline_key). Pure; any thread.
#pragma once

#include <string_view>

#include "session/turn/turn_spec.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// Takes the value of the field `param`: session_id comes before prompt_cache_key and metadata.user_id, the first of
/// these before the second. One of more than 512 bytes is ignored.
void NoteTimelineKey(std::string_view param, std::string_view value, TurnSpec* spec);
/// Where no field has named the conversation: X-Session-ID, or X-Conversation-Id.
void NoteTimelineKey(const HttpRequest& request, TurnSpec* spec);

}  // namespace ringside
