// Predicts how long a new turn waits for its first row: from the turns of all tenants after the last round, and from
// those submitted since. Follows the scheduler's order, so a tenant waits for its own turns and for those that are
// served before its next one, and not for another tenant's long queue. Owned by WaitControl. THREAD: any, except where
// stated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/scheduler.h"

namespace ringside {

/// Amounts along an axis, in a fixed number of bins of one width. The last bin has no end. A value.
class BinnedAmounts {
 public:
  BinnedAmounts() = default;
  /// The first bin is the one that contains `origin`. REQUIRES: width > 0.
  BinnedAmounts(double origin, double width);
  /// Adds an amount of density 1, from `from` on.
  void Add(double from, double amount);
  /// Everything up to the end of the bin that contains `at`.
  double Through(double at) const;

 private:
  static constexpr size_t kBins = 64;
  size_t BinOf(double at) const;
  double width_ = 1, first_ = 0;  // first_: start of the first bin
  std::array<double, kBins> bins_{};
};

class WaitForecast {
 public:
  /// A tenant's turns after a round.
  struct Tenant {
    double served = 0;   // its VirtualTokenCounter
    int64_t tokens = 0;  // prompt tokens to compute, of running and waiting turns
    int64_t running = 0, waiting = 0;
  };
  /// The engine after a round.
  struct Load {
    std::unordered_map<std::string, Tenant> tenants;  // those with turns
    double ns_per_token = 0;                          // of prompts, at the present decode load; 0 = not measured
    double ns_per_end = 0;                            // mean time until the next running turn ends
    int64_t free_slots = 0;                           // that waiting turns can take
  };

  /// REQUIRES: `served` outlives the forecast.
  explicit WaitForecast(const VirtualTokenCounter& served) : served_(served) { Rebuild(); }

  /// A turn with this number of prompt tokens to compute is submitted.
  void Arrive(const std::string& tenant, int64_t tokens);
  /// It was not accepted.
  void Withdraw(const std::string& tenant, int64_t tokens);
  /// The engine has received it: it is part of the next load. THREAD: engine.
  void Receive(const std::string& tenant, int64_t tokens) { received_.push_back({tenant, tokens}); }
  /// THREAD: engine.
  void Publish(Load load);

  /// The predicted wait of the tenant's next turn; 0 = nothing is before it. It is the sum of two times:
  /// - The prompt tokens before it, at the present rate: those of its tenant, and those that other tenants are served
  ///   before it or in the same bucket of the virtual token counter.
  /// - If no slot is free for it: the mean time between two ends of running turns, for it and for each waiting turn
  ///   before it. A turn that preempts another at once (PickVictim) waits for none.
  /// An upper bound as far as the rates are right: prompts are computed also while a turn waits for a slot.
  double WaitNs(const std::string& tenant) const;
  /// As WaitNs, of a turn after all others.
  double LongestNs() const;
  double ns_per_token() const;

 private:
  /// The position of a tenant's next turn.
  struct Place {
    double level = 0;   // in served tokens
    int64_t turns = 0;  // running and waiting ones of its tenant
  };
  struct Arrived {
    int64_t tokens = 0, turns = 0;
  };
  // REQUIRES: mutex_ held, for all below.
  Place PlaceOf(const std::string& tenant) const;
  void AddArrived(const std::string& tenant, const Arrived& arrived);
  void RemoveArrived(const std::string& tenant, int64_t tokens);
  void Rebuild();
  double Ns(double tokens, double turns, bool needs_slot) const;

  const VirtualTokenCounter& served_;
  std::vector<std::pair<std::string, int64_t>> received_;  // since the last Publish; of the engine's thread
  mutable std::mutex mutex_;
  Load load_;
  std::unordered_map<std::string, Arrived> arrived_;  // in the engine's inbox
  // Made of the two above.
  double least_served_ = std::numeric_limits<double>::infinity();
  int64_t most_running_ = 0;  // of one tenant
  std::unordered_map<std::string, Place> places_;
  BinnedAmounts tokens_;  // prompt tokens, by the counter at which they are served
  BinnedAmounts turns_;   // waiting turns, by the number of turns that their tenant has before them
};

}  // namespace ringside
