// What waits to be written to one socket. Any thread pushes, the connection's strand takes; the one object of a
// connection that two threads touch. What is pushed is written out as text when it is taken, on the strand: whoever
// pushes pays for a pointer, however long the text becomes. It wakes the strand once per change from empty to
// non-empty. Above a soft limit waiting entries of one answer are merged; above a hard limit everything is dropped and
// the socket is to be closed with 1013. After a close has been asked for nothing more is taken in.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ws/transport/outbox_budget.h"

namespace ringside {

/// One or more messages that wait. Made on any thread, written out on the strand.
class OutboxEntry {
 public:
  virtual ~OutboxEntry() = default;
  /// The next message, as text. Not called once it is done().
  virtual std::string Next() = 0;
  virtual bool done() const = 0;
  /// Memory held, about; at least 1.
  virtual size_t bytes() const = 0;
  /// True for much that comes at once: a replay, the last events of an answer. A peer cannot have read it yet, so
  /// however much it is counts as no slowness, unless more than the soft limit was waiting before.
  virtual bool bulk() const { return false; }
  /// Entries with the same key other than 0 may become one by Absorb. Only entries of other keys may stand between
  /// them: one with key 0 keeps its place behind everything pushed before it.
  virtual uint64_t merge_key() const { return 0; }
  /// Takes in what a newer entry with the same key says.
  virtual void Absorb(OutboxEntry& newer) { (void)newer; }
};

class Outbox {
 public:
  /// The close of an HTTP answer that is whole; every other code cuts it short.
  static constexpr uint16_t kEndOfBody = 1000;

  /// `wake` is called, without the lock, when there is something to take; it must be safe from any thread.
  /// `share`, if any, counts what waits: while its owner, or all, have more waiting than they may, an outbox above the
  /// soft limit is closed as one above the hard limit is.
  explicit Outbox(std::function<void()> wake, std::unique_ptr<OutboxShare> share = nullptr)
      : wake_(std::move(wake)), share_(std::move(share)) {}

  void Push(std::unique_ptr<OutboxEntry> entry);
  /// One message that is text already.
  void Push(std::string message);
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
  using Entries = std::deque<std::unique_ptr<OutboxEntry>>;
  /// Under the lock. The entries are to be destroyed without it.
  Entries Drop();
  /// Under the lock, after `bytes_` has changed.
  void Count() {
    if (share_ != nullptr) share_->Set(bytes_);
  }

  mutable std::mutex mutex_;
  std::function<void()> wake_;
  const std::unique_ptr<OutboxShare> share_;
  Entries entries_;                    // behind `open_`
  std::unique_ptr<OutboxEntry> open_;  // of which some messages have been taken. Strand only
  std::optional<Closing> closing_;
  size_t bytes_ = 0;       // of all entries
  size_t open_bytes_ = 0;  // of these, of `open_`; 0 = there is none, or it was dropped
  size_t allowance_ = 0;   // of what came in bulk and is not written yet: beyond the hard limit
  bool detached_ = false;
  bool close_taken_ = false;
};

}  // namespace ringside
