// What waits to be written to one socket. Any thread pushes, the connection's strand takes; the one object of a
// connection that two threads touch. It wakes the strand once per change from empty to non-empty. Above a soft limit
// pending deltas of one response are merged (a delta is any text); above a hard limit everything is dropped and the
// socket is to be closed with 1013. After a close has been asked for nothing more is taken in.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace ringside {

/// One text message: head + delta + tail. Waiting frames with the same merge key other than 0 may become one, in the
/// place of the oldest: the deltas joined, between the newest head and tail. Only deltas of other keys may stand
/// between them: a frame with key 0 keeps its place behind everything pushed before it. `delta` is already escaped for
/// JSON.
struct Frame {
  std::string head, delta, tail;
  uint64_t merge_key = 0;
};

class Outbox {
 public:
  /// The close of an HTTP answer that is whole; every other code cuts it short.
  static constexpr uint16_t kEndOfBody = 1000;

  /// `wake` is called, without the lock, when there is something to take; it must be safe from any thread.
  explicit Outbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Push(Frame frame);
  void Push(std::string message) { Push(Frame{std::move(message), "", "", 0}); }
  /// Runs `fill`, which pushes what belongs together: a replay, the last events of an answer. A peer cannot have read
  /// what comes all at once, so however much that is counts as no slowness, unless more than the soft limit was waiting
  /// before.
  void PushTogether(const std::function<void()>& fill);
  /// The same in two calls. True = it counts, and EndTogether must be called.
  bool BeginTogether();
  void EndTogether();
  /// Asks for a close with this code after what is queued; `at_once` drops what is queued. The first call wins.
  void Close(uint16_t code, std::string reason, bool at_once = false);
  /// The socket is gone: pushes are dropped from now on and no new wake is begun (one may still be running).
  void Detach();

  struct Closing {
    uint16_t code;
    std::string reason;
  };
  /// The next message to write, or nothing. Strand only.
  std::optional<std::string> Take();
  /// The close asked for, once everything before it has been taken; once only. Strand only.
  std::optional<Closing> TakeClose();
  size_t queued_bytes() const;

 private:
  mutable std::mutex mutex_;
  std::function<void()> wake_;
  std::deque<Frame> frames_;
  std::optional<Closing> closing_;
  size_t bytes_ = 0;
  size_t allowance_ = 0;  // of what came together and is not written yet: beyond the hard limit
  int together_ = 0;      // calls of PushTogether that count
  bool detached_ = false;
  bool close_taken_ = false;
};

}  // namespace ringside
