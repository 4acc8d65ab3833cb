#include "engine/turns/turn_clock.h"

namespace ringside {

void TurnClock::NoteNoSlot(int64_t now_ns) {
  if (no_slot_ns_ == 0) no_slot_ns_ = now_ns;
}

void TurnClock::NoteStep(bool has_part, int64_t now_ns) {
  if (passed_over_ns_ != 0) others_ns_ += now_ns - passed_over_ns_;
  passed_over_ns_ = has_part ? 0 : now_ns;
}

void TurnClock::NoteToken(int64_t now_ns) {
  if (first_token_ns_ == 0) first_token_ns_ = now_ns;
}

TurnTimes TurnClock::Times(int64_t reasoned_until_ns, int64_t now_ns) const {
  const auto ms = [](int64_t from, int64_t to) { return static_cast<double>(to - from) * 1e-6; };
  TurnTimes times;
  times.queue_ms = ms(submitted_ns_, begun_ns_);
  times.slot_ms = no_slot_ns_ == 0 ? 0 : ms(no_slot_ns_, begun_ns_);
  times.others_ms = ms(0, others_ns_);
  if (first_token_ns_ == 0) return times;
  times.prefill_ms = ms(begun_ns_, first_token_ns_);
  times.decode_ms = ms(first_token_ns_, now_ns);
  if (reasoned_until_ns != 0) times.reasoning_ms = ms(first_token_ns_, reasoned_until_ns);
  return times;
}

}  // namespace ringside
