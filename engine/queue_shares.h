// Accepts or refuses turns by the number that already wait for a slot, for each account. Owned by the engine loop.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/status.h"

namespace ringside {

/// Dynamic thresholds (Choudhury and Hahne 1998, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches").
/// With limit L and n waiting turns in all, a turn is accepted if its account has fewer than min(L, 2L - n). An account
/// alone fills L places, two accounts 2L/3 each, twenty 2L/21 each. An account without waiting turns is refused only
/// where 2L turns wait. No accepted turn is dropped later.
///
/// THREAD: any. Turns enter on the threads that submit them and leave on the engine's.
class QueueShares {
 public:
  /// `limit`: L, at least 1. `slots`: of the engine, all free.
  QueueShares(int64_t limit, int64_t slots) : limit_(limit), free_slots_(slots) {}

  /// Adds a turn to the queue. ERRORS: kOverloaded: the account has its share; nothing has changed then.
  Status Enter(const std::string& account);
  /// A waiting turn gets a slot.
  void Admit(const std::string& account);
  /// A running turn is preempted and waits again. Never refused.
  void Requeue(const std::string& account);
  /// A waiting turn ends without a slot.
  void Leave(const std::string& account);
  /// Slots for turns that enter from now on; they are subtracted from the number of waiting turns.
  void SetFreeSlots(int64_t slots);

 private:
  void RemoveOne(const std::string& account);

  const int64_t limit_;
  std::mutex mutex_;
  int64_t free_slots_;
  int64_t waiting_ = 0;
  std::unordered_map<std::string, int64_t> of_account_;  // accounts with waiting turns
};

}  // namespace ringside
