#include "session/turn/active_turn.h"

namespace ringside {

ActiveTurn::Next ActiveTurn::Recorded(const Status& status) {
  refused = status;
  if (stage_ == Stage::kSubmitted) return status.ok() ? Next::kAnnounce : Next::kFail;
  if (stage_ == Stage::kBegun) stage_ = status.ok() ? Stage::kRecorded : Stage::kRefused;
  return Next::kWait;
}

void ActiveTurn::MakeReader() {
  const bool typed = response->calls != CallPlace::kNone && SyntaxOf(response->syntax).loose();
  reader = ToolCallReader(response->calls, response->syntax,
                          typed ? std::make_shared<ParameterTypes>(std::string_view(next.head().tools)) : nullptr);
}

ActiveTurn::Next ActiveTurn::Submitted() {
  if (stage_ == Stage::kRecorded) return Next::kAnnounce;
  if (stage_ == Stage::kRefused) return Next::kFail;
  if (stage_ == Stage::kBegun) stage_ = Stage::kSubmitted;
  return Next::kWait;
}

}  // namespace ringside
