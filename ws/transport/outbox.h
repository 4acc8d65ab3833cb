// Queue of messages to write to one socket, the only object of a connection that two threads touch. Any thread pushes;
// the connection's strand pops. Entries are serialized when popped, on the strand: the producer pays for a pointer,
// however long the text. The strand is woken once per change from empty to non-empty. Above a soft limit, queued
// entries of one answer are merged; above a hard limit everything is dropped and the socket is closed with 1013. After
// a close has been requested the outbox accepts no entries.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ws/transport/limits/outbox_budget.h"

namespace ringside {

/// One or more queued messages. Created on any thread, serialized on the strand.
class OutboxEntry {
 public:
  virtual ~OutboxEntry() = default;
  /// Returns the next message as text.
  /// REQUIRES: !done().
  virtual std::string Next() = 0;
  virtual bool done() const = 0;
  /// Approximate memory held, at least 1.
  virtual size_t bytes() const = 0;
  /// True for a large burst: a replay, or the last events of an answer. The peer cannot have read it yet, so its size
  /// is no evidence of a slow reader unless more than the soft limit was queued before.
  virtual bool bulk() const { return false; }
  /// Entries with the same nonzero key may be merged by Absorb across entries of other keys. An entry with key 0 is a
  /// barrier: it stays after everything pushed before it.
  virtual uint64_t merge_key() const { return 0; }
  /// Merges the contents of a newer entry with the same key.
  virtual void Absorb(OutboxEntry& newer) { (void)newer; }
};

class Outbox {
 public:
  /// Ends a complete HTTP response; every other code truncates it.
  static constexpr uint16_t kEndOfBody = 1000;

  /// `wake` is called without the lock when an entry or a close is available. `share`, if any, counts queued bytes:
  /// while its owner, or all owners together, exceed their limit, an outbox above the soft limit is closed as if it
  /// were above the hard limit.
  /// REQUIRES: `wake` may be called on any thread.
  explicit Outbox(std::function<void()> wake, std::unique_ptr<OutboxShare> share = nullptr)
      : wake_(std::move(wake)), share_(std::move(share)) {}

  void Push(std::unique_ptr<OutboxEntry> entry);
  /// Queues one message that is already serialized.
  void Push(std::string message);
  /// Queues messages that belong together, as one burst (OutboxEntry::bulk).
  void PushBurst(std::vector<std::string> messages);
  /// Requests a close with this code after the queued entries; `at_once` drops them. The first call wins.
  void Close(uint16_t code, std::string reason, bool at_once = false);
  /// Notes that the socket is gone: pushes are dropped and no further wake starts (one may still be running).
  void Detach();

  struct Closing {
    uint16_t code;
    std::string reason;
  };
  /// Pops the next message to write, if any.
  /// THREAD: strand.
  std::optional<std::string> Take();
  /// Returns the requested close once, after all entries before it have been popped.
  /// THREAD: strand.
  std::optional<Closing> TakeClose();
  size_t queued_bytes() const;

 private:
  using Entries = std::deque<std::unique_ptr<OutboxEntry>>;
  /// REQUIRES: the lock is held. The caller destroys the entries without it.
  Entries Drop();
  /// REQUIRES: the lock is held, `bytes_` has changed.
  void Count() {
    if (share_ != nullptr) share_->Set(bytes_);
  }

  mutable std::mutex mutex_;
  std::function<void()> wake_;
  const std::unique_ptr<OutboxShare> share_;
  Entries entries_;                    // after `open_`
  std::unique_ptr<OutboxEntry> open_;  // partly written entry. Strand only
  std::optional<Closing> closing_;
  size_t bytes_ = 0;       // of all entries
  size_t open_bytes_ = 0;  // bytes of `open_` in `bytes_`; 0 = no open entry, or it was dropped
  size_t allowance_ = 0;   // unwritten bulk bytes, added to the hard limit
  bool detached_ = false;
  bool close_taken_ = false;
};

}  // namespace ringside
