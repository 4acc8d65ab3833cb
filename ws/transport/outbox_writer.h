// Output of one connection: its outbox, the bytes being written, and the close that was taken from the outbox. Owned by
// the Connection or the HttpStream.
// THREAD: the connection's strand.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ws/transport/limits/body_budget.h"
#include "ws/transport/outbox.h"

namespace ringside {

class OutboxWriter {
 public:
  /// `answers` outlives the output.
  explicit OutboxWriter(BodyBudget& answers) : share_(answers) {}

  /// Bytes that are written are charged to `owner`.
  void Open(std::shared_ptr<Outbox> outbox, std::string owner) {
    outbox_ = std::move(outbox);
    owner_ = std::move(owner);
  }
  /// Null before Open.
  const std::shared_ptr<Outbox>& outbox() const { return outbox_; }
  bool writing() const { return writing_; }
  const std::string& written() const { return written_; }

  /// Sets the bytes to write next.
  /// REQUIRES: !writing().
  void Set(std::string bytes) { written_ = std::move(bytes); }
  void Append(std::string_view bytes) { written_ += bytes; }
  /// Starts to write; false if the budget has no room for the bytes.
  bool Begin() {
    writing_ = share_.Hold(owner_, written_.size());
    return writing_;
  }
  void End() {
    writing_ = false;
    written_ = std::string();  // releases the memory of a large message
    share_.GiveBack();
  }

  /// Takes a requested close that no queued message precedes; false if there is none, or it was taken before.
  bool TakeClose() {
    const std::optional<Outbox::Closing> close = outbox_->TakeClose();
    if (close) close_ = close;
    return close.has_value();
  }
  /// The close taken, if any.
  const std::optional<Outbox::Closing>& close() const { return close_; }

 private:
  std::shared_ptr<Outbox> outbox_;
  std::string owner_;
  std::string written_;
  BodyShare share_;
  std::optional<Outbox::Closing> close_;
  bool writing_ = false;
};

}  // namespace ringside
