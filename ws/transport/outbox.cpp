#include "ws/transport/outbox.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace ringside {
namespace {

constexpr size_t kSoftBytes = limits::kOutboxSoftBytes;
constexpr size_t kHardBytes = limits::kOutboxHardBytes;
// How far back a delta looks for one of its own response: lanes answer side by side, so it need not be the newest.
constexpr size_t kMergeReach = 2 * limits::kMaxTurnsInFlightPerConnection;

size_t Bytes(const Frame& frame) { return frame.head.size() + frame.delta.size() + frame.tail.size(); }

/// The waiting frame that `frame` may join: nothing but deltas of other responses stands behind it, so the order
/// within each response stays.
Frame* FindMergeable(std::deque<Frame>& frames, const Frame& frame) {
  if (frame.merge_key == 0) return nullptr;
  const size_t reach = std::min(frames.size(), kMergeReach);
  for (size_t back = 1; back <= reach; ++back) {
    Frame& waiting = frames[frames.size() - back];
    if (waiting.merge_key == frame.merge_key) return &waiting;
    if (waiting.merge_key == 0) return nullptr;
  }
  return nullptr;
}

}  // namespace

void Outbox::Push(Frame frame) {
  std::function<void()> wake;
  {
    std::lock_guard lock(mutex_);
    if (detached_ || closing_) return;
    const bool was_empty = frames_.empty();
    const size_t bytes_before = bytes_;
    Frame* waiting = bytes_ > kSoftBytes ? FindMergeable(frames_, frame) : nullptr;
    if (waiting != nullptr) {
      bytes_ -= Bytes(*waiting);
      waiting->head = std::move(frame.head);
      waiting->delta += frame.delta;
      waiting->tail = std::move(frame.tail);
      bytes_ += Bytes(*waiting);
    } else {
      bytes_ += Bytes(frame);
      frames_.push_back(std::move(frame));
    }
    // One message larger than the limit is no sign of a slow reader; one behind others is.
    if (together_ == 0 && bytes_ > kHardBytes + allowance_ && bytes_before > kSoftBytes) {
      frames_.clear();
      bytes_ = 0;
      closing_ = Closing{1013, "slow reader"};
      wake = wake_;
    } else if (was_empty) {
      wake = wake_;
    }
  }
  if (wake) wake();
}

bool Outbox::BeginTogether() {
  std::lock_guard lock(mutex_);
  if (bytes_ > kSoftBytes) return false;
  ++together_;
  return true;
}

void Outbox::EndTogether() {
  std::lock_guard lock(mutex_);
  --together_;
  allowance_ = bytes_;
}

void Outbox::PushTogether(const std::function<void()>& fill) {
  const bool counts = BeginTogether();
  fill();
  if (counts) EndTogether();
}

void Outbox::Close(uint16_t code, std::string reason, bool at_once) {
  std::function<void()> wake;
  {
    std::lock_guard lock(mutex_);
    if (detached_ || closing_) return;
    closing_ = Closing{code, std::move(reason)};
    if (at_once) {
      frames_.clear();
      bytes_ = 0;
    }
    if (frames_.empty()) wake = wake_;
  }
  if (wake) wake();
}

void Outbox::Detach() {
  std::function<void()> dropped;  // destroyed without the lock: it may own what calls back here
  std::deque<Frame> frames;
  std::lock_guard lock(mutex_);
  detached_ = true;
  dropped.swap(wake_);
  frames.swap(frames_);
  bytes_ = 0;
}

std::optional<std::string> Outbox::Take() {
  std::lock_guard lock(mutex_);
  if (frames_.empty()) return std::nullopt;
  Frame frame = std::move(frames_.front());
  frames_.pop_front();
  bytes_ -= Bytes(frame);
  allowance_ = std::min(allowance_, bytes_);
  frame.head.reserve(Bytes(frame));
  frame.head += frame.delta;
  frame.head += frame.tail;
  return std::move(frame.head);
}

std::optional<Outbox::Closing> Outbox::TakeClose() {
  std::lock_guard lock(mutex_);
  if (!frames_.empty() || !closing_ || close_taken_) return std::nullopt;
  close_taken_ = true;
  return closing_;
}

size_t Outbox::queued_bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace ringside
