// Admission control: accepts or refuses turns by the length of each tenant's queue. Owned by the engine loop.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/status.h"

namespace ringside {

/// Dynamic thresholds (Choudhury and Hahne 1998, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches").
/// With limit L and n queued turns in total, a turn is accepted if its tenant has fewer than min(L, 2L - n). A tenant
/// alone fills L places, two tenants 2L/3 each, twenty 2L/21 each. A tenant without queued turns is refused only if 2L
/// turns are queued. An accepted turn is never dropped.
///
/// THREAD: any. Turns enter on the threads that submit them and leave on the engine's.
class QueueShares {
 public:
  /// `limit`: L, at least 1. `slots`: number of slots, all free.
  QueueShares(int64_t limit, int64_t slots) : limit_(limit), free_slots_(slots) {}

  /// Adds a turn to the queue. ERRORS: kOverloaded, and nothing changes, if the tenant has its share.
  Status Enter(const std::string& tenant);
  /// A queued turn gets a slot.
  void Admit(const std::string& tenant);
  /// A preempted turn is queued again. Never refused.
  void Requeue(const std::string& tenant);
  /// A queued turn ends without a slot.
  void Leave(const std::string& tenant);
  /// Free slots: subtracted from the number of queued turns at the next Enter.
  void SetFreeSlots(int64_t slots);

 private:
  void RemoveOne(const std::string& tenant);

  const int64_t limit_;
  std::mutex mutex_;
  int64_t free_slots_;
  int64_t waiting_ = 0;
  std::unordered_map<std::string, int64_t> by_tenant_;  // tenants with queued turns
};

}  // namespace ringside
