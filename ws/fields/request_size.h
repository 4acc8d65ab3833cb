// The size of a request without its images. Where a model reads images, the transport accepts more than
// limits::kMaxMessageBytes, and only images may use the rest: limits of text are those of a server without images.
// Pure. THREAD: any.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/limits.h"
#include "base/status.h"
#include "ws/json/json_value.h"

namespace ringside {

/// Bytes of the strings that are images, in the places where ws/content/image_fields.h reads one: parts of messages, of
/// tools' results and of lists of items, and `images`. Not those of other objects, which may be rendered as text.
size_t ImageBytesOf(const JsonValue& request);

/// True if a message may wait on a connection where messages of `queued` bytes wait.
inline bool MayWait(size_t queued, size_t bytes) {
  return queued == 0 || queued + bytes <= static_cast<size_t>(limits::kMaxQueuedBytesPerConnection);
}

/// As ParseJson. ERRORS: also kInvalidArgument (request_too_large) above limits::kMaxMessageBytes without its images.
Result<JsonValue> ParseRequest(std::string_view text);

}  // namespace ringside
