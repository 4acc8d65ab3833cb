// Digest of everything that a client requested, which distinguishes response.create requests. Pure.
// THREAD: any.
#pragma once

#include <string>

#include "ws/json/json_value.h"

namespace ringside {

/// "request_" and the XXH3-128 of the canonical body: members sorted by name, nulls left out, integral numbers written
/// as integers, no white space. Fields about delivery are left out: `type`, `event_id`, `stream_id`, `stream`,
/// `stream_options`. It is stored, so it must never change, on any machine.
std::string RequestDigest(const JsonValue& body);

}  // namespace ringside
