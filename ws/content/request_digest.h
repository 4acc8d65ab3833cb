// What tells one response.create from another: a digest of everything that the client asked for. Pure; any thread.
#pragma once

#include <string>

#include "ws/json/json_value.h"

namespace ringside {

/// "request_" and the XXH3-128 of the canonical body: members sorted by name, those that are null left out, numbers
/// written as integers where they are one, nothing between the values. Left out too is what says how the request
/// travels and not what it asks: `type`, `event_id`, `stream_id`, `stream`, `stream_options`. It is stored, so it is
/// the same on every machine and for ever.
std::string RequestDigest(const JsonValue& body);

}  // namespace ringside
