#include "base/status.h"

namespace ringside {

const char* StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid_argument";
    case StatusCode::kNotFound:
      return "not_found";
    case StatusCode::kBusy:
      return "busy";
    case StatusCode::kOverloaded:
      return "overloaded";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kCorruption:
      return "corruption";
    case StatusCode::kMismatch:
      return "mismatch";
    case StatusCode::kIo:
      return "io";
    case StatusCode::kUnavailable:
      return "unavailable";
  }
  return "unknown";
}

std::string Status::ToString() const { return ok() ? "ok" : std::string(StatusCodeName(code_)) + ": " + message_; }

}  // namespace ringside
