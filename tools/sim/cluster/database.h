// The database that the servers of a cell share, or the local store of a server that is a cell alone: latency and rate
// of commits, and a failover during which commits wait. THREAD: one.
#pragma once

#include <algorithm>
#include <cmath>

#include "tools/sim/cluster/cluster_options.h"

namespace ringside {

class Database {
 public:
  /// Commits `transactions` turn-sized transactions and `appends` token records, submitted at `now_s`. `random`:
  /// uniform in [0, 1). Returns the time at which they are durable. Calls may be out of order by less than a turn.
  double Commit(const StoreOptions& options, double now_s, double transactions, double appends, double random) {
    const double work = transactions / options.commits_per_s + appends / options.appends_per_s;
    busy_s_ += work;
    free_s_ = std::max(free_s_, now_s) + work;
    return free_s_ + options.least_s * std::pow(options.most_s / options.least_s, random);
  }
  /// A failover: nothing is committed before `until_s`.
  void Pause(double now_s, double until_s) {
    paused_since_s_ = now_s, paused_until_s_ = until_s;
    free_s_ = std::max(free_s_, until_s);
  }
  /// The wait for a commit that a server can predict: its backlog; during a failover only the time since its start.
  double WaitS(double now_s) const {
    return now_s < paused_until_s_ ? now_s - paused_since_s_ : std::max(free_s_ - now_s, 0.0);
  }
  /// Time spent on commits so far.
  double busy_s() const { return busy_s_; }

 private:
  double free_s_ = 0, busy_s_ = 0, paused_since_s_ = 0, paused_until_s_ = 0;
};

}  // namespace ringside
