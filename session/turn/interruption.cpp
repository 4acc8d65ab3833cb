#include "session/turn/interruption.h"

#include "session/model_source.h"
#include "session/turn/response.h"

namespace ringside {
namespace {

/// Errors before anything was computed: the client changes the request or retries later.
bool RefusesRequest(const Status& error) {
  const StatusCode code = error.code();
  return code == StatusCode::kInvalidArgument || code == StatusCode::kOverloaded || code == StatusCode::kBusy ||
         error.reason() == kModelLoadFailed;
}

}  // namespace

std::optional<Status> InterruptionOf(const TurnEnd& end, std::string_view incomplete_reason) {
  if (end.reason == FinishReason::kCancelled && incomplete_reason == kInterrupted) {
    return Unavailable("The server stopped before the answer was complete.");
  }
  if (end.reason != FinishReason::kError) return std::nullopt;
  if (end.output.empty() && RefusesRequest(end.error)) return std::nullopt;
  return end.error;
}

}  // namespace ringside
