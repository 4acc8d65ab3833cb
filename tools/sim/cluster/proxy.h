// The proxy before the servers: hashes a key to a cell and to one of its servers, remembers the route, counts open
// connections, and notices failures after its checks. THREAD: one.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/sim/cluster/cluster_options.h"
#include "tools/sim/cluster/hash_ring.h"

namespace ringside {

constexpr uint32_t kNone = UINT32_MAX;

/// A client's key, or its x-affinity header: all its conversations have one route.
struct Route {
  uint64_t key = 0;
  uint32_t cell = kNone, server = kNone;
  uint32_t version = 0;  // of the stick table
};

class Proxy {
 public:
  /// REQUIRES: `options` outlives it.
  explicit Proxy(const ProxyOptions& options) : options_(options) {}

  /// Adds a server to a cell, which is the last one or the one after that. Call Sort after the last server.
  void Add(uint32_t cell, double weight);
  void Sort();

  /// The server for a request of the route's key, or kNone if no server of its cell is believed up.
  uint32_t Find(Route& route, double now_s);
  /// Empties the stick table.
  void Forget() { ++version_; }

  void Open(uint32_t server) { ++servers_[server].open, ++open_; }
  void Close(uint32_t server) { --servers_[server].open, --open_; }
  /// All connections of a server that has stopped.
  void CloseAll(uint32_t server) { open_ -= servers_[server].open, servers_[server].open = 0; }
  /// The outcome of a server's checks has changed. Open connections remain.
  void SetUp(uint32_t server, bool up, double now_s);
  int64_t open(uint32_t server) const { return servers_[server].open; }
  uint32_t cell(uint32_t server) const { return servers_[server].cell; }
  bool IsUp(uint32_t server) const { return servers_[server].up; }

 private:
  struct Server {
    uint32_t cell = 0;
    double weight = 1, up_since_s = -1e9;
    bool up = true;
    int64_t open = 0;
  };
  struct Cell {
    HashRing ring;
    double weight = 0;  // of the servers that are up
  };
  bool IsFull(uint32_t server) const;
  uint32_t FindIn(const Cell& cell, uint64_t key, double now_s) const;

  const ProxyOptions& options_;
  std::vector<Server> servers_;
  std::vector<Cell> cells_;
  HashRing cell_ring_;
  double weight_ = 0;
  int64_t open_ = 0;
  uint32_t version_ = 1;
};

}  // namespace ringside
