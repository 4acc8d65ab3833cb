#include "ws/transport/outbox.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace ringside {
namespace {

constexpr size_t kSoftBytes = limits::kOutboxSoftBytes;
constexpr size_t kHardBytes = limits::kOutboxHardBytes;
// Distance to search back for an entry of the same answer: lanes answer concurrently, so it need not be the newest.
constexpr size_t kMergeReach = 2 * limits::kMaxTurnsInFlightPerConnection;

class TextEntry final : public OutboxEntry {
 public:
  explicit TextEntry(std::string message) : message_(std::move(message)) {}
  std::string Next() override {
    done_ = true;
    return std::move(message_);
  }
  bool done() const override { return done_; }
  size_t bytes() const override { return std::max<size_t>(1, message_.size()); }

 private:
  std::string message_;
  bool done_ = false;
};

class BurstEntry final : public OutboxEntry {
 public:
  explicit BurstEntry(std::vector<std::string> messages) : messages_(std::move(messages)) {}
  std::string Next() override { return std::move(messages_[next_++]); }
  bool done() const override { return next_ == messages_.size(); }
  size_t bytes() const override {
    size_t bytes = 1;
    for (size_t i = next_; i < messages_.size(); ++i) bytes += messages_[i].size();
    return bytes;
  }
  bool bulk() const override { return true; }

 private:
  std::vector<std::string> messages_;
  size_t next_ = 0;
};

/// Returns the queued entry that `entry` may merge into. Only entries of other answers follow it, so the order within
/// each answer is preserved.
OutboxEntry* FindMergeable(const std::deque<std::unique_ptr<OutboxEntry>>& entries, const OutboxEntry& entry) {
  if (entry.merge_key() == 0) return nullptr;
  const size_t reach = std::min(entries.size(), kMergeReach);
  for (size_t back = 1; back <= reach; ++back) {
    OutboxEntry& waiting = *entries[entries.size() - back];
    if (waiting.merge_key() == entry.merge_key()) return &waiting;
    if (waiting.merge_key() == 0) return nullptr;
  }
  return nullptr;
}

}  // namespace

void Outbox::Push(std::string message) { Push(std::make_unique<TextEntry>(std::move(message))); }

void Outbox::PushBurst(std::vector<std::string> messages) {
  if (!messages.empty()) Push(std::make_unique<BurstEntry>(std::move(messages)));
}

void Outbox::Push(std::unique_ptr<OutboxEntry> entry) {
  std::function<void()> wake;
  Entries dropped;
  {
    std::lock_guard lock(mutex_);
    if (detached_ || closing_) return;
    const bool was_empty = entries_.empty() && open_bytes_ == 0;
    const bool slow = bytes_ > kSoftBytes;
    const bool allowed = entry->bulk() && !slow;
    OutboxEntry* waiting = slow ? FindMergeable(entries_, *entry) : nullptr;
    if (waiting != nullptr) {
      bytes_ -= waiting->bytes();
      waiting->Absorb(*entry);
      bytes_ += waiting->bytes();
    } else {
      bytes_ += entry->bytes();
      entries_.push_back(std::move(entry));
    }
    if (allowed) allowance_ = bytes_;
    Count();
    const bool over = share_ != nullptr && share_->over() && bytes_ > kSoftBytes;
    // A single message above the limit does not indicate a slow reader; one queued after others does.
    if (over || (slow && bytes_ > kHardBytes + allowance_)) {
      dropped = Drop();
      closing_ = Closing{1013, "slow reader"};
      wake = wake_;
    } else if (was_empty) {
      wake = wake_;
    }
  }
  if (wake) wake();
}

Outbox::Entries Outbox::Drop() {
  bytes_ = open_bytes_ = allowance_ = 0;
  Count();
  return std::exchange(entries_, {});
}

void Outbox::Close(uint16_t code, std::string reason, bool at_once) {
  std::function<void()> wake;
  Entries dropped;
  {
    std::lock_guard lock(mutex_);
    if (detached_ || closing_) return;
    closing_ = Closing{code, std::move(reason)};
    if (at_once) dropped = Drop();
    if (bytes_ == 0) wake = wake_;
  }
  if (wake) wake();
}

void Outbox::Detach() {
  std::function<void()> dropped;  // destroyed without the lock: its captures may call back into this class
  Entries entries;
  std::lock_guard lock(mutex_);
  detached_ = true;
  dropped.swap(wake_);
  entries = Drop();
}

std::optional<std::string> Outbox::Take() {
  {
    std::lock_guard lock(mutex_);
    if (open_bytes_ == 0) open_.reset();  // dropped by a close
    if (open_ == nullptr) {
      if (entries_.empty()) return std::nullopt;
      open_ = std::move(entries_.front());
      entries_.pop_front();
      open_bytes_ = open_->bytes();
    }
  }
  // Without the lock: serializing a long message takes time, and the engine pushes meanwhile.
  std::string message = open_->Next();
  const bool done = open_->done();
  const size_t left = done ? 0 : open_->bytes();
  std::lock_guard lock(mutex_);
  if (open_bytes_ > 0) {
    bytes_ = bytes_ - open_bytes_ + left;
    open_bytes_ = left;
    allowance_ = std::min(allowance_, bytes_);
    Count();
  }
  if (done) open_.reset();
  return message;
}

std::optional<Outbox::Closing> Outbox::TakeClose() {
  std::lock_guard lock(mutex_);
  if (bytes_ > 0 || !closing_ || close_taken_) return std::nullopt;
  close_taken_ = true;
  return closing_;
}

size_t Outbox::queued_bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace ringside
