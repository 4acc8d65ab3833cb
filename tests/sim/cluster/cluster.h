// Many servers behind a proxy that hashes conversations to them, as a discrete-event simulation: turns, pauses, caches
// in slots, host memory and on disk, servers that fail, restart, go and come. Steps take the time of a cost model. Each
// server is a few numbers, not the real engine (simulation.h has that): two queues, one of prompts and one of its disk,
// and lists of caches by their last use. The same seed gives the same figures. One thread.
#pragma once

#include <cstdint>

#include "tests/sim/cost_model.h"

namespace ringside {

struct ClusterOptions {
  int64_t servers = 1000;
  double conversations_per_server = 700;  // alive at any time: one that ends is followed by a new one
  double warm_up_s = 900, measured_s = 600;
  uint64_t seed = 7;

  // A conversation: a first prompt, log-uniform; then turns of `input` new tokens and `output` written.
  double first_least = 64, first_most = 6400;
  int64_t turns = 19, input = 48, output = 64;
  double pause_s = 30;                           // between two turns: 0.5 to 1.5 times as much,
  double long_pause_share = 0.02, away_s = 900;  // but for some, exponential with this mean

  // A server.
  double token_bytes = 65536, window = 8192;
  double slot_bytes = 113e9, host_bytes = 92e9, disk_bytes = 1e12;
  double host_idle_s = 60, disk_idle_s = 600;  // unused for so long, a cache leaves its slot, and host memory
  double disk_bytes_per_s = 4e9;               // either way
  double network_bytes_per_s = 12.5e9;

  // The proxy.
  int64_t points = 160;      // of each server on the ring
  double bound = 0;          // a server takes no more than so many times the mean; 0 = any number
  bool remembers = false;    // where a conversation was first (a cookie, a table); with a bound it must
  bool redispatches = true;  // whether it sends a turn elsewhere while its server does not answer
  // Whether any server can go on with any conversation, its cache coming over the network. False is today: each has a
  // store of its own, and a conversation is not found elsewhere.
  bool shared_store = false;

  // What happens, from the end of the warm-up on.
  double failure_every_s = 0;  // some server's process ends, and is back after restart_s; its disk keeps what it has
  double restart_s = 90;
  double upgrade_every_s = 0;   // the next server is stopped in order, and back after restart_s
  double save_s = 20;           // for which a stop writes caches to the disk
  int64_t lost = 0, added = 0;  // so many servers go for good, or come, at once
};

struct ClusterReport {
  // Turns of the measured time.
  int64_t turns = 0, fresh = 0, from_slot = 0, from_host = 0, from_disk = 0, from_network = 0, recomputed = 0;
  int64_t cut = 0;                       // their server failed while they ran; they are asked for again
  int64_t refused = 0;                   // their server did not answer, or too many waited; asked for again every 5 s
  int64_t not_found = 0;                 // sent to a server that does not know the conversation, which is given up
  double fullest = 0;                    // most conversations of a server, against the mean, at the end
  double prompt_share = 0, busiest = 0;  // of the time in which prompts are computed: mean, and the worst server's
  // First tokens of turns that are not a conversation's first, in ms, whatever the turn had to wait for.
  double first_p50 = 0, first_p99 = 0, first_p999 = 0;
  double recomputed_per_s = 0, recomputed_peak = 0;  // tokens, all servers; over the worst 10 s
  double network_per_s = 0, network_peak = 0;        // bytes, likewise
  double disk_per_s = 0, disk_peak = 0;              // read and written
  bool operator==(const ClusterReport&) const = default;
};

ClusterReport SimulateCluster(const CostModel& cost, const ClusterOptions& options);

}  // namespace ringside
