#include "session/turn/turn_recorder.h"

namespace ringside {

TurnRecorder::Next TurnRecorder::Recorded(const Status& status) {
  refused_ = status;
  if (stage_ == Stage::kSubmitted) return status.ok() ? Next::kAnnounce : Next::kFail;
  if (stage_ == Stage::kBegun) stage_ = status.ok() ? Stage::kRecorded : Stage::kRefused;
  return Next::kWait;
}

TurnRecorder::Next TurnRecorder::Submitted() {
  if (stage_ == Stage::kRecorded) return Next::kAnnounce;
  if (stage_ == Stage::kRefused) return Next::kFail;
  if (stage_ == Stage::kBegun) stage_ = Stage::kSubmitted;
  return Next::kWait;
}

}  // namespace ringside
