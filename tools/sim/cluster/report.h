// The figures of a cluster simulation. A value. THREAD: any.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/sim/cluster/log_histogram.h"

namespace ringside {

/// A part of the measured time.
struct PhaseReport {
  double seconds = 0;
  int64_t turns = 0;  // admitted, and the sources of their caches:
  int64_t fresh = 0, from_slot = 0, from_host = 0, from_disk = 0, recomputed = 0;
  int64_t refused = 0;    // requests answered with Retry-After
  int64_t gave_up = 0;    // turns whose retries were all refused
  int64_t cut = 0;        // the server failed during the turn; it is repeated
  int64_t not_found = 0;  // sent to a cell without the conversation, which is then abandoned
  int64_t claimed = 0;    // conversations taken over by another server, or by a restarted one
  double recomputed_tokens = 0;
  double fullest = 0;  // conversations of the fullest server per weight, relative to the mean, at the end
  double prompt_share = 0, busiest = 0;  // share of the time spent on prompts: mean of the servers that are up; worst
  double disk_bytes = 0, database_share = 0;  // read and written; the busiest database's share of the time
  // Time to first token in ms, of turns after a conversation's first: from the request that was admitted; and from the
  // person's question, with refusals and all waiting.
  double first_p50 = 0, first_p99 = 0, first_p999 = 0, asked_p99 = 0, asked_p999 = 0;
  bool operator==(const PhaseReport&) const = default;
};

struct ClusterReport {
  std::vector<PhaseReport> phases;
  // Over the whole run, for tests: every question is answered, given up, cut off by a lost conversation, or pending.
  int64_t asked = 0, answered = 0, gave_up = 0, not_found = 0, pending = 0;
  int64_t conversations = 0;  // alive at the end
  int64_t homed = 0;          // of these, sum over the servers of the ones they own
  int64_t with_home = 0;      // and the number that have an owner
  int64_t open = 0;           // connections that the proxy counts at the end
  int64_t connected = 0;      // and conversations that have one to a server that is up
  double fullest_memory = 0;  // largest share of its budget that a tier of memory has held
  double longest_wait_s = 0;  // between an admitted request and its first prompt row, lease and downtime excluded
  bool operator==(const ClusterReport&) const = default;
};

}  // namespace ringside
