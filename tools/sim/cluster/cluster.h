// Discrete-event simulation of many servers behind a proxy that hashes conversations to them: turns, pauses, caches in
// slots, host memory and on disk, servers that fail, restart, leave and join. A cost model gives step times. Each
// server is a few numbers, not the real engine (see simulation.h for that): a queue for prompts, one for its disk, and
// LRU lists of caches. The same seed gives the same figures. THREAD: one.
#pragma once

#include <cstdint>

#include "tools/sim/cost_model.h"

namespace ringside {

struct ClusterOptions {
  int64_t servers = 1000;
  double conversations_per_server = 700;  // alive at any time: one that ends is replaced by a new one
  double warm_up_s = 900, measured_s = 600;
  uint64_t seed = 7;

  // A conversation: a first prompt, log-uniform; then turns of `input` new tokens and `output` generated ones.
  double first_least = 64, first_most = 6400;
  int64_t turns = 19, input = 48, output = 64;
  double pause_s = 30;                           // between two turns: 0.5 to 1.5 times this,
  double long_pause_share = 0.02, away_s = 900;  // except for some, exponential with this mean

  // A server.
  double token_bytes = 65536, window = 8192;
  double slot_bytes = 113e9, host_bytes = 92e9, disk_bytes = 1e12;
  double host_idle_s = 60, disk_idle_s = 600;  // idle times after which a cache leaves its slot, and host memory
  double disk_bytes_per_s = 4e9;               // in each direction
  double network_bytes_per_s = 12.5e9;

  // The proxy.
  int64_t points = 160;      // of each server on the ring
  double bound = 0;          // a server accepts at most this multiple of the mean load; 0 = unlimited
  bool remembers = false;    // sticky routing (a cookie, a table); required with a bound
  bool redispatches = true;  // whether a turn is sent to another server while its own is down
  // Whether any server can continue any conversation, fetching its cache over the network. False today: each has a
  // private store, and a conversation cannot be found elsewhere.
  bool shared_store = false;

  // Events, from the end of the warm-up on.
  double failure_every_s = 0;  // a random server crashes, and is back after restart_s; its disk survives
  double restart_s = 90;
  double upgrade_every_s = 0;   // the next server is stopped cleanly, and back after restart_s
  double save_s = 20;           // time for which a stop writes caches to disk
  int64_t lost = 0, added = 0;  // number of servers that leave permanently, or join, at once
};

struct ClusterReport {
  // Turns during the measurement.
  int64_t turns = 0, fresh = 0, from_slot = 0, from_host = 0, from_disk = 0, from_network = 0, recomputed = 0;
  int64_t cut = 0;                       // their server failed during the turn; they are repeated
  int64_t refused = 0;                   // their server was down, or its queue was full; repeated every 5 s
  int64_t not_found = 0;                 // sent to a server without the conversation, which is then abandoned
  double fullest = 0;                    // conversations of the fullest server, relative to the mean, at the end
  double prompt_share = 0, busiest = 0;  // share of the time spent on prompts: mean, and the worst server's
  // Time to first token in ms, of turns after a conversation's first, including all waiting.
  double first_p50 = 0, first_p99 = 0, first_p999 = 0;
  double recomputed_per_s = 0, recomputed_peak = 0;  // tokens, all servers; over the worst 10 s
  double network_per_s = 0, network_peak = 0;        // bytes, in the same way
  double disk_per_s = 0, disk_peak = 0;              // read and written
  bool operator==(const ClusterReport&) const = default;
};

ClusterReport SimulateCluster(const CostModel& cost, const ClusterOptions& options);

}  // namespace ringside
