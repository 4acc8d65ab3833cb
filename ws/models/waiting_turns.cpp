#include "ws/models/waiting_turns.h"

#include <algorithm>
#include <utility>

namespace ringside {

Status WaitingTurns::Push(const std::string& model, TurnRequest request, int64_t now_ns) {
  RETURN_IF_ERROR(shares_.Enter(request.tenant));
  queues_[model].push_back({std::move(request), now_ns});
  return Status::Ok();
}

bool WaitingTurns::Cancel(TurnId turn) {
  for (auto& [model, queue] : queues_) {
    const auto at = std::ranges::find_if(queue, [turn](const Turn& one) { return one.request.turn == turn; });
    if (at == queue.end()) continue;
    shares_.Leave(at->request.tenant);
    cancelled_.push_back(std::move(at->request));
    queue.erase(at);
    if (queue.empty()) queues_.erase(model);
    return true;
  }
  return false;
}

std::vector<TurnRequest> WaitingTurns::PopCancelled() { return std::exchange(cancelled_, {}); }

std::vector<TurnRequest> WaitingTurns::PopAll(const std::string& model) {
  std::vector<TurnRequest> all;
  const auto at = queues_.find(model);
  if (at == queues_.end()) return all;
  for (Turn& turn : at->second) {
    shares_.Leave(turn.request.tenant);
    all.push_back(std::move(turn.request));
  }
  queues_.erase(at);
  return all;
}

std::optional<int64_t> WaitingTurns::OldestNs(const std::string& model) const {
  const auto at = queues_.find(model);
  return at == queues_.end() ? std::nullopt : std::optional(at->second.front().arrived_ns);
}

int64_t WaitingTurns::Count(const std::string& model) const {
  const auto at = queues_.find(model);
  return at == queues_.end() ? 0 : std::ssize(at->second);
}

int64_t WaitingTurns::size() const {
  int64_t all = 0;
  for (const auto& [model, queue] : queues_) all += std::ssize(queue);
  return all;
}

}  // namespace ringside
