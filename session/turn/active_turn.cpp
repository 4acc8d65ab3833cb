#include "session/turn/active_turn.h"

namespace ringside {

ActiveTurn::Next ActiveTurn::Recorded(const Status& status) {
  refused = status;
  if (stage_ == Stage::kSubmitted) return status.ok() ? Next::kAnnounce : Next::kFail;
  if (stage_ == Stage::kBegun) stage_ = status.ok() ? Stage::kRecorded : Stage::kRefused;
  return Next::kWait;
}

ActiveTurn::Next ActiveTurn::Submitted() {
  if (stage_ == Stage::kRecorded) return Next::kAnnounce;
  if (stage_ == Stage::kRefused) return Next::kFail;
  if (stage_ == Stage::kBegun) stage_ = Stage::kSubmitted;
  return Next::kWait;
}

}  // namespace ringside
