// Signs of life of one WebSocket: when its last message and its last bytes arrived, and whether a ping is pending.
// Owned by its Connection. THREAD: the connection's strand.
#pragma once

#include <chrono>
#include <utility>

namespace ringside {

class SocketActivity {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  void NoteOpened(TimePoint now) { last_message_ = last_bytes_ = now; }
  void NoteBytes(TimePoint now) { last_bytes_ = now; }
  void NoteMessage(TimePoint now) { last_message_ = now; }

  TimePoint last_message() const { return last_message_; }
  bool HasNoMessageFor(std::chrono::milliseconds time, TimePoint now) const { return now - last_message_ >= time; }
  /// True if more than `time` has passed since the last bytes, pongs included.
  bool IsSilentFor(std::chrono::milliseconds time, TimePoint now) const { return now - last_bytes_ > time; }

  /// False if the previous ping has not been written yet.
  bool BeginPing() { return !std::exchange(pinging_, true); }
  void EndPing() { pinging_ = false; }

 private:
  TimePoint last_message_, last_bytes_;
  bool pinging_ = false;
};

}  // namespace ringside
