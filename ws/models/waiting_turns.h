// Turns of models that are not loaded, each model's in order of arrival, bounded per tenant. Owned by the ModelPool.
// THREAD: one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/overload/queue_shares.h"
#include "engine/turn_request.h"

namespace ringside {

class WaitingTurns {
 public:
  /// `limit`: turns of one tenant, as --queue-limit.
  explicit WaitingTurns(int64_t limit) : shares_(limit, /*slots=*/0) {}

  /// ERRORS: kOverloaded, and nothing changes.
  Status Push(const std::string& model, TurnRequest request, int64_t now_ns);
  /// Marks the turn as cancelled; ignored if it does not wait. True: PopCancelled returns it.
  bool Cancel(TurnId turn);
  std::vector<TurnRequest> PopCancelled();
  /// All turns of the model, in order.
  std::vector<TurnRequest> PopAll(const std::string& model);
  /// Arrival of the model's oldest turn; nullopt if none waits.
  std::optional<int64_t> OldestNs(const std::string& model) const;
  int64_t Count(const std::string& model) const;
  int64_t size() const;

 private:
  struct Turn {
    TurnRequest request;
    int64_t arrived_ns = 0;
  };
  using Queue = std::deque<Turn>;

  QueueShares shares_;
  std::unordered_map<std::string, Queue> queues_;  // by model; none empty
  std::vector<TurnRequest> cancelled_;
};

}  // namespace ringside
