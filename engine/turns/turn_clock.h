// The times of a turn: its waits before the first token, and the end. One per turn. THREAD: engine.
#pragma once

#include <cstdint>

#include "engine/token_sink.h"

namespace ringside {

class TurnClock {
 public:
  explicit TurnClock(int64_t submitted_ns) : submitted_ns_(submitted_ns) {}

  int64_t submitted_ns() const { return submitted_ns_; }
  /// 0 = not yet.
  int64_t begun_ns() const { return begun_ns_; }
  /// True until the device has returned the turn's first token; that token also reports errors in rows of the prompt.
  bool awaits_first_token() const { return first_token_ns_ == 0; }

  /// The first call counts: the turn got no slot.
  void NoteNoSlot(int64_t now_ns);
  /// Its slot and cache are ready.
  void NoteBegin(int64_t now_ns) { begun_ns_ = now_ns; }
  /// A step starts while its prompt is computed, with a part of the prompt or without.
  void NoteStep(bool has_part, int64_t now_ns);
  /// A token of the answer has arrived.
  void NoteToken(int64_t now_ns);
  /// The times of a turn that has begun. `reasoned_until_ns`: arrival of the last reasoning token; 0 = none.
  TurnTimes Times(int64_t reasoned_until_ns, int64_t now_ns) const;

 private:
  const int64_t submitted_ns_;  // 0 = not yet, in the others
  int64_t begun_ns_ = 0, first_token_ns_ = 0;
  int64_t no_slot_ns_ = 0;                      // first failure to get a slot
  int64_t passed_over_ns_ = 0, others_ns_ = 0;  // start of the current pause, and total of earlier ones
};

}  // namespace ringside
