#include "cache/store/moving_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ringside {

void MovingQueue::Push(Move move) {
  {
    std::lock_guard lock(mutex_);
    moves_.push_back(std::move(move));
  }
  wake_.notify_all();
}

std::optional<MovingQueue::Move> MovingQueue::Cancel(const std::string& owner) {
  if (owner.empty()) return std::nullopt;
  std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(moves_, owner, &Move::owner);
  if (at == moves_.end()) return std::nullopt;
  Move canceled = std::move(*at);
  moves_.erase(at);
  return canceled;
}

std::optional<MovingQueue::Move> MovingQueue::Pop(int64_t wait_ms) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return closed_ || !moves_.empty(); };
  if (wait_ms > 0) {
    wake_.wait_for(lock, std::chrono::milliseconds(wait_ms), ready);
  } else {
    wake_.wait(lock, ready);
  }
  if (!moves_.empty()) return PopFront();
  return closed_ ? std::nullopt : std::optional(Move{});
}

std::optional<MovingQueue::Move> MovingQueue::TryPop() {
  std::lock_guard lock(mutex_);
  if (moves_.empty()) return std::nullopt;
  return PopFront();
}

MovingQueue::Move MovingQueue::PopFront() {
  Move move = std::move(moves_.front());
  moves_.pop_front();
  return move;
}

void MovingQueue::Close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  wake_.notify_all();
}

}  // namespace ringside
