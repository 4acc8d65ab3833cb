#include "ws/fields/timeline_key.h"

#include "base/limits.h"

namespace ringside {

void NoteTimelineKey(std::string_view param, std::string_view value, TurnSpec* spec) {
  if (value.size() > static_cast<size_t>(limits::kMaxMetadataValueBytes)) return;
  if (spec->timeline_key.empty() || param == "session_id") spec->timeline_key = value;
}

void NoteTimelineKey(const HttpRequest& request, TurnSpec* spec) {
  for (const char* header : {"x-session-id", "x-conversation-id"}) {
    if (spec->timeline_key.empty()) NoteTimelineKey(header, request.Header(header), spec);
  }
}

}  // namespace ringside
