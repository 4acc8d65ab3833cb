#include "session/turn/interruption.h"

#include "session/turn/response.h"

namespace ringside {
namespace {

/// Errors of the request itself: its client changes it or retries later.
bool RefusesRequest(StatusCode code) {
  return code == StatusCode::kInvalidArgument || code == StatusCode::kOverloaded || code == StatusCode::kBusy;
}

}  // namespace

std::optional<Status> InterruptionOf(const TurnEnd& end, std::string_view incomplete_reason) {
  if (end.reason == FinishReason::kCancelled && incomplete_reason == kInterrupted) {
    return Unavailable("The server stopped before the answer was complete.");
  }
  if (end.reason != FinishReason::kError) return std::nullopt;
  if (end.output.empty() && RefusesRequest(end.error.code())) return std::nullopt;
  return end.error;
}

}  // namespace ringside
