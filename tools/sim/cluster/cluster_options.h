// The inputs of the cluster simulation (cluster.h): people, servers, proxy, shared store, admission and events. Times
// are in seconds, sizes in bytes, rates per second. Values. THREAD: any.
#pragma once

#include <cstdint>
#include <vector>

namespace ringside {

/// Conversations and the requests of their clients. A conversation has a first prompt and `turns` turns on average;
/// one that ends is replaced by a new one.
struct PeopleOptions {
  double first_least = 64, first_most = 6400;    // tokens of a first prompt, log-uniform
  double turns = 19, input = 48, output = 64;    // means; turns of one conversation are geometric
  double tail_sigma = 1;                         // of inputs and outputs, log-normal; 0 = constant lengths and turns
  double pause_s = 30;                           // between two turns: 0.5 to 1.5 times this,
  double long_pause_share = 0.02, away_s = 900;  // except for some, exponential with this mean
  double key_alpha = 0, key_most = 1;            // conversations per key: Pareto with this exponent, up to key_most
  double burst_every_s = 0, burst_share = 0.2;   // this share of idle people asks
  double burst_s = 5;                            // within this time
  bool honor_retry_after = true;                 // else they retry every 5 s
  double jitter = 0.5;                           // a retry comes up to this share later than advised
  int64_t retries = 2;  // refused more often, a person gives up, and asks again after a pause; < 0 = never gives up
};

/// A server of size 1; one of another size has that multiple of memory and weight, at the same speed.
struct ServerOptions {
  double token_bytes = 65536, window = 8192;
  double slot_bytes = 113e9, host_bytes = 92e9, disk_bytes = 1e12;
  double host_idle_s = 60, disk_idle_s = 600;  // idle times after which a cache leaves its slot, and host memory
  double disk_bytes_per_s = 4e9;               // in each direction
  double restart_s = 90, save_s = 20;          // of a stop in order: time for which it writes caches to disk
  int64_t queue_limit = 720;                   // unfinished prompts: 210 in slots, and 512 queued (two --queue-limit)
  double small_share = 0, small_size = 0.5;    // this share of the servers has this size
};

/// HAProxy as in docs/operating/several-servers.md.
struct ProxyOptions {
  int64_t points = 160;     // on the ring, of a server of weight 1
  bool weighted = true;     // weights are sizes; else all are 1
  bool stick = true;        // a route stays on its server while that is up; else it is hashed at every request
  double bound = 1.25;      // hash-balance-factor: no server takes a new route above this multiple of the mean number
                            // of open connections; 0 = unlimited
  bool websockets = false;  // a connection is open for the whole conversation; else for a turn
  double check_s = 2;       // until a failed server is noticed
  double slow_start_s = 0;  // a returning server's weight grows to its full value in this time
  double hold_s = 30;       // a request waits for a server that is down (its cell has no other)
};

/// The store of conversations. A cell is the servers that share a database; each can continue the cell's conversations,
/// and recomputes a cache that it does not have. A cell of one server is a server with a private store.
struct StoreOptions {
  int64_t cell_servers = 16;
  double least_s = 0.001, most_s = 0.008;  // latency of a commit, log-uniform
  double commits_per_s = 1770;             // turn-sized transactions; more are queued
  double appends_per_s = 94800;            // token records in batches
  bool commits_tokens = false;             // durability `token` instead of `turn`
  double lease_s = 10;                     // until a failed server's conversations can be claimed
};

/// Events after the warm-up; times count from its end.
struct EventOptions {
  double failure_every_s = 0;   // a random server crashes; its disk survives
  double upgrade_every_s = 0;   // the next server is stopped in order
  double zone_lost_s = -1;      // a third of the servers crashes at once,
  double zone_back_s = 1e9;     // and returns
  double database_lost_s = -1;  // every `database_share`-th cell's database fails over,
  double database_away_s = 20;  // which takes this time
  double database_share = 0.1;
  double added_s = -1;          // cells of new servers join
  double added_share = 0.1;     // of the number of servers
  bool forgets_routes = false;  // at added_s the proxy loses its stick table (a reload without peers)
};

struct ClusterOptions {
  int64_t servers = 1000;
  double conversations_per_server = 700;  // alive at any time
  double warm_up_s = 900, measured_s = 600;
  std::vector<double> phase_ends_s;  // ascending, before measured_s: a report for each part, and one for the rest
  uint64_t seed = 7;
  double wait_limit_s = 0;    // WaitLimit (wait_limit.h); 0 = no admission control except queue_limit
  double misjudgement = 0.3;  // a server's predictions are wrong by a constant factor of up to 1 +- this
  PeopleOptions people;
  ServerOptions server;
  ProxyOptions proxy;
  StoreOptions store;
  EventOptions events;
};

}  // namespace ringside
