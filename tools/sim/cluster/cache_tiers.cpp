#include "tools/sim/cluster/cache_tiers.h"

#include <cmath>

namespace ringside {
namespace {

constexpr double kWriteBacklogS = 30;  // writes that would wait longer for the disk are dropped

}  // namespace

void CacheTiers::Take(uint32_t id) {
  Conversation& one = all_[id];
  if (one.tier == kGone) return;
  List& list = servers_[one.holder].lists[one.tier];
  (one.prev == kNone ? list.first : all_[one.prev].next) = one.next;
  (one.next == kNone ? list.last : all_[one.next].prev) = one.prev;
  list.bytes -= Bytes(one.cached);
  one.prev = one.next = kNone, one.tier = kGone;
}

void CacheTiers::Put(uint32_t id, uint32_t server, Tier tier) {
  Conversation& one = all_[id];
  List& list = servers_[server].lists[tier];
  one.holder = server, one.tier = tier, one.prev = kNone, one.next = list.first;
  (list.first == kNone ? list.last : all_[list.first].prev) = id;
  list.first = id;
  list.bytes += Bytes(one.cached);
}

void CacheTiers::MakeRoom(uint32_t server, double now_s) {
  Server& at = servers_[server];
  const double budgets[] = {options_.slot_bytes * at.size, options_.host_bytes * at.size, options_.disk_bytes};
  const double idle[] = {options_.host_idle_s, options_.disk_idle_s, INFINITY};
  for (const Tier tier : {kSlot, kHost, kDisk}) {
    List& list = at.lists[tier];
    while (list.last != kNone && (list.bytes > budgets[tier] || now_s - all_[list.last].used_s > idle[tier])) {
      Sink(list.last, now_s);
    }
  }
  for (const Tier tier : {kSlot, kHost}) fullest_ = std::max(fullest_, at.lists[tier].bytes / budgets[tier]);
}

void CacheTiers::Sink(uint32_t id, double now_s) {
  Conversation& one = all_[id];
  const Tier from = one.tier;
  const uint32_t server = one.holder;
  Take(id);
  if (from == kSlot) return Put(id, server, kHost);
  Server& at = servers_[server];
  const double bytes = Bytes(one.cached) - Bytes(one.saved);
  if (from == kDisk || options_.disk_bytes == 0 || at.write_free_s > now_s + kWriteBacklogS) {
    one.cached = one.saved = 0;
    return;
  }
  at.write_free_s = std::max(at.write_free_s, now_s) + bytes / options_.disk_bytes_per_s;
  disk_bytes_ += bytes;
  one.saved = one.cached;
  Put(id, server, kDisk);
}

double CacheTiers::ReadS(uint32_t server, double bytes, double now_s) const {
  return std::max(servers_[server].read_free_s - now_s, 0.0) + bytes / options_.disk_bytes_per_s;
}

void CacheTiers::Read(uint32_t server, double bytes, double now_s) {
  servers_[server].read_free_s = now_s + ReadS(server, bytes, now_s);
  disk_bytes_ += bytes;
}

void CacheTiers::Save(uint32_t server) {
  double left = options_.save_s * options_.disk_bytes_per_s;
  for (const Tier tier : {kSlot, kHost}) {
    for (uint32_t id = servers_[server].lists[tier].first; id != kNone && left > 0; id = all_[id].next) {
      const double bytes = Bytes(all_[id].cached) - Bytes(all_[id].saved);
      left -= bytes;
      disk_bytes_ += bytes;
      all_[id].saved = all_[id].cached;
    }
  }
}

void CacheTiers::LoseMemory(uint32_t server) {
  for (const Tier tier : {kSlot, kHost}) {
    List& list = servers_[server].lists[tier];
    while (list.first != kNone) {
      const uint32_t id = list.first;
      Take(id);
      all_[id].cached = all_[id].saved;  // the part on disk
      if (all_[id].saved > 0) Put(id, server, kDisk);
    }
  }
}

}  // namespace ringside
