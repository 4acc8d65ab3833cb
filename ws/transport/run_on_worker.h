// How a face defers work to the server's workers, and how it learns when one has room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace ringside {

/// Runs a call on one of the workers, which `client` shares with the others; `bytes` are what it holds. ERRORS:
/// kUnavailable: the queue is full, and the call never runs.
using RunOnWorker = std::function<Status(const std::string& client, size_t bytes, std::function<void()> call)>;

/// The estimated time until there is room for a turn of this principal that was refused, in milliseconds.
using RetryAfter = std::function<int64_t(const std::string& principal)>;

/// The time after which `principal` may retry a turn that was refused with `refused`; 0 = unknown (`estimate` is null),
/// or no lack of room.
inline int64_t RetryAfterMs(const RetryAfter& estimate, const Status& refused, const std::string& principal) {
  return estimate && refused.code() == StatusCode::kOverloaded ? estimate(principal) : 0;
}

}  // namespace ringside
