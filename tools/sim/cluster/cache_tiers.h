// Caches of the conversations of each server, in slots, host memory and on disk: least recently used lists that move
// caches one tier down when a tier is full or a cache is idle. THREAD: one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tools/sim/cluster/cluster_options.h"
#include "tools/sim/cluster/proxy.h"

namespace ringside {

enum Tier : uint8_t { kSlot, kHost, kDisk, kGone };

struct Conversation {
  float tokens = 0, cached = 0, saved = 0;  // in the conversation; cached; in the disk copy on the holder
  float input = 0, output = 0;              // of the turn that is asked or runs
  double due_s = 0;                         // time of its next event; earlier ones are void
  double asked_s = 0, sent_s = 0;           // when the person asked, and this attempt
  double used_s = 0;                        // when the cache was used
  uint32_t route = kNone;                   // its key
  uint32_t cell = kNone;                    // where it is stored; kNone before its first turn
  uint32_t home = kNone, epoch = 0;         // the owner, a server with its incarnation
  uint32_t holder = kNone;                  // the server with the cache
  uint32_t prev = kNone, next = kNone;      // in the holder's list
  uint16_t turn = 0, attempts = 0;
  Tier tier = kGone;
  bool asks = false, is_sent = false, runs = false, is_connected = false;
};

class CacheTiers {
 public:
  /// REQUIRES: the references outlive it.
  CacheTiers(const ServerOptions& options, std::vector<Conversation>& all) : options_(options), all_(all) {}

  /// Adds a server of this size.
  void Add(double size) { servers_.emplace_back().size = size; }

  double Bytes(double tokens) const { return std::min(tokens, options_.window) * options_.token_bytes; }
  /// Removes a conversation's cache from its holder's list.
  void Take(uint32_t id);
  /// Adds it to a server's list as the most recently used one.
  void Put(uint32_t id, uint32_t server, Tier tier);
  /// Moves caches of the server down until each tier is within its budget.
  void MakeRoom(uint32_t server, double now_s);
  /// Seconds until a disk read of `bytes` is done, in the queue of the server's reads; Read queues it.
  double ReadS(uint32_t server, double bytes, double now_s) const;
  void Read(uint32_t server, double bytes, double now_s);
  /// Writes caches in slots and host memory to disk for options.save_s.
  void Save(uint32_t server);
  /// Slots and host memory are lost; disk copies remain.
  void LoseMemory(uint32_t server);

  /// Bytes read from and written to disks so far.
  double disk_bytes() const { return disk_bytes_; }
  /// The largest share of its budget that a tier has held after MakeRoom.
  double fullest() const { return fullest_; }

 private:
  struct List {
    uint32_t first = kNone, last = kNone;  // the last one is the least recently used
    double bytes = 0;
  };
  struct Server {
    double size = 1, read_free_s = 0, write_free_s = 0;
    List lists[3];
  };
  void Sink(uint32_t id, double now_s);

  const ServerOptions& options_;
  std::vector<Conversation>& all_;
  std::vector<Server> servers_;
  double disk_bytes_ = 0, fullest_ = 0;
};

}  // namespace ringside
