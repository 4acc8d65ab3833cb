// Conversations of the cluster simulation: their keys, lengths and pauses. THREAD: one.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tools/sim/cluster/cache_tiers.h"
#include "tools/sim/cluster/cluster_options.h"
#include "tools/sim/cluster/proxy.h"

namespace ringside {

class People {
 public:
  /// Creates `count` conversations. REQUIRES: `options` outlives it.
  People(const PeopleOptions& options, size_t count, uint64_t seed);

  std::vector<Conversation>& all() { return all_; }
  Route& route(const Conversation& one) { return routes_[one.route]; }

  /// Uniform in [0, 1).
  double Random() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  uint64_t RandomBits() { return random_(); }
  double PauseS();
  /// Draws the lengths of the next turn.
  void Ask(Conversation& one);
  /// Whether the turn that has ended was the conversation's last one.
  bool IsLast(const Conversation& one);
  /// Replaces a conversation by a new one. Half of the people with one conversation are replaced by others, with a new
  /// key; the rest, and keys with many conversations, remain. REQUIRES: its cache has been taken out.
  void Renew(Conversation& one);
  /// Time after which a refused client asks again.
  double RetryS(double advised_s);

 private:
  double Length(double mean);

  const PeopleOptions& options_;
  std::mt19937_64 random_;
  std::vector<Route> routes_;
  std::vector<uint32_t> sizes_;  // conversations of each route
  std::vector<Conversation> all_;
};

}  // namespace ringside
