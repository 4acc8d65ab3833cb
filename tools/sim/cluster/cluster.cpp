#include "tools/sim/cluster/cluster.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <random>
#include <tuple>
#include <vector>

#include "tools/sim/cluster/hash_ring.h"

namespace ringside {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;
constexpr double kRetryS = 5, kBucketS = 10;
constexpr double kStepS = 0.060;       // a step with prompts: --max-step-ms
constexpr double kPatienceS = 60;      // a turn that would wait longer for prompts is refused, as by --queue-limit
constexpr double kWriteBacklogS = 30;  // writes that would wait longer for the disk are dropped
constexpr double kMostDecoding = 0.9;  // share of the time, while prompts are waiting

enum Tier : uint8_t { kSlot, kHost, kDisk, kGone };

/// A quantity over time: its mean, and that of the worst ten seconds.
class Meter {
 public:
  void Add(double at_s, double amount) {
    const auto i = static_cast<size_t>(at_s / kBucketS);
    if (i >= buckets_.size()) buckets_.resize(i + 1);
    buckets_[i] += amount;
  }
  void Read(double seconds, double* mean, double* peak) const {
    double sum = 0;
    for (const double bucket : buckets_) sum += bucket, *peak = std::max(*peak, bucket / kBucketS);
    *mean = sum / seconds;
  }

 private:
  std::vector<double> buckets_;
};

/// Percentiles of a very large number of values, within 1 %.
class LogHistogram {
 public:
  void Add(double value) {
    const auto i = static_cast<size_t>(std::max(0.0, kPerE * std::log(value / kLeast)));
    if (i >= counts_.size()) counts_.resize(i + 1);
    ++counts_[i], ++all_;
  }
  double At(double share) const {
    int64_t left = static_cast<int64_t>(share * static_cast<double>(all_));
    for (size_t i = 0; i < counts_.size(); ++i) {
      if ((left -= counts_[i]) < 0) return kLeast * std::exp((static_cast<double>(i) + 0.5) / kPerE);
    }
    return 0;
  }

 private:
  static constexpr double kLeast = 0.1, kPerE = 100;
  std::vector<int64_t> counts_;
  int64_t all_ = 0;
};

struct Conversation {
  uint64_t key = 0;
  double tokens = 0, cached = 0, saved = 0;  // in the conversation; cached; in the disk copy on the holder
  double asked_s = 0, used_s = 0;
  uint32_t home = kNobody, holder = kNobody;  // server that owns the conversation; server that has its cache
  uint32_t prev = kNobody, next = kNobody;    // in the holder's list
  uint32_t version = 0, epoch = 0;            // of the ring at routing time; of its server when its turn started
  int32_t turn = 0;
  Tier tier = kGone;
  bool asks = false;
};

struct Server {
  bool listed = true, up = true;
  uint32_t epoch = 0;
  int64_t conversations = 0, running = 0;
  double prompts_free_s = 0, read_free_s = 0, write_free_s = 0, network_free_s = 0;
  double computing_s = 0;  // during the measurement
  struct List {
    uint32_t first = kNobody, last = kNobody;  // the last one is the least recently used
    double bytes = 0;
  } lists[3];
};

struct Event {
  enum Kind : uint8_t { kTurn, kEnd, kFail, kUpgrade, kUp, kChange };
  double at_s;
  uint32_t who;
  Kind kind;
  bool operator>(const Event& other) const {
    return std::tie(at_s, who, kind) > std::tie(other.at_s, other.who, other.kind);
  }
};

/// Millions of events in time order: bucketed by second, and sorted only when a second begins.
class EventQueue {
 public:
  void Push(const Event& event) {
    const auto second = static_cast<size_t>(event.at_s);
    if (second <= second_) return now_.push(event);
    if (second >= later_.size()) later_.resize(second + 1);
    later_[second].push_back(event);
  }
  /// REQUIRES: not empty.
  Event Pop() {
    while (now_.empty()) {
      for (const Event& event : later_[++second_]) now_.push(event);
      std::vector<Event>().swap(later_[second_]);
    }
    const Event event = now_.top();
    now_.pop();
    return event;
  }

 private:
  size_t second_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> now_;
  std::vector<std::vector<Event>> later_;
};

class Cluster {
 public:
  Cluster(const CostModel& cost, const ClusterOptions& options);
  ClusterReport Run();

 private:
  // Events.
  void Turn(uint32_t id);
  void End(uint32_t id);
  void Fail(uint32_t server);
  void Stop(uint32_t server);
  void Change();
  void Down(uint32_t server);
  void Up(uint32_t server) { servers_[server].up = true, ++version_; }

  double Random() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  double Pause();
  void Renew(Conversation& one);
  uint32_t Route(Conversation& one);
  void MoveTo(Conversation& one, uint32_t server);
  /// Brings the cache to the server's slots; returns the time of arrival. Reduces `cached` by any part that could not
  /// be restored.
  double Fetch(Conversation& one, Tier tier, uint32_t server);
  double RecomputeS(double tokens) const { return tokens * row_s_ + tokens * tokens / 2 * product_s_; }
  double Bytes(double tokens) const { return std::min(tokens, options_.window) * options_.token_bytes; }

  void Take(uint32_t id);
  void Put(uint32_t id, uint32_t server, Tier tier);
  void MakeRoom(uint32_t server);
  /// Moves a cache one tier down, or drops it.
  void Sink(uint32_t id);
  bool measured() const { return now_s_ >= options_.warm_up_s; }

  const CostModel& cost_;
  const ClusterOptions& options_;
  const double row_s_, product_s_;
  std::mt19937_64 random_;
  HashRing ring_;
  std::vector<Server> servers_;
  std::vector<Conversation> all_;
  EventQueue events_;
  double now_s_ = 0;
  uint32_t version_ = 1, next_upgrade_ = 0;
  int64_t listed_ = 0;
  ClusterReport report_;
  LogHistogram first_;
  Meter recomputed_, network_, disk_;
};

Cluster::Cluster(const CostModel& cost, const ClusterOptions& options)
    : cost_(cost),
      options_(options),
      row_s_(cost.StepMs({.rows = 2048, .prompts = 1}) / 2048 * 1e-3),
      product_s_(cost.product * 1e-3),
      random_(options.seed),
      ring_(options.points),
      servers_(static_cast<size_t>(options.servers)),
      all_(static_cast<size_t>(options.conversations_per_server * static_cast<double>(options.servers))) {
  ring_.Add(0, static_cast<uint32_t>(options.servers));
  listed_ = options.servers;
  const double life_s = options.pause_s * static_cast<double>(options.turns);
  for (uint32_t id = 0; id < all_.size(); ++id) {
    Renew(all_[id]);
    events_.Push({Random() * life_s, id, Event::kTurn});
  }
  const double begin = options.warm_up_s;
  if (options.failure_every_s > 0) events_.Push({begin, 0, Event::kFail});
  if (options.upgrade_every_s > 0) events_.Push({begin, 0, Event::kUpgrade});
  if (options.lost + options.added > 0) events_.Push({begin, 0, Event::kChange});
}

double Cluster::Pause() {
  if (Random() < options_.long_pause_share) return -options_.away_s * std::log(1 - Random());
  return options_.pause_s * (0.5 + Random());
}

void Cluster::Renew(Conversation& one) {
  if (one.home != kNobody) --servers_[one.home].conversations;
  const auto id = static_cast<uint32_t>(&one - all_.data());
  Take(id);
  one = {};
  one.key = random_();
}

uint32_t Cluster::Route(Conversation& one) {
  const auto answers = [&](uint32_t s) { return servers_[s].listed && (servers_[s].up || !options_.redispatches); };
  const bool remembers = options_.remembers || options_.bound > 0;
  if (one.home != kNobody && answers(one.home) && (remembers || one.version == version_)) return one.home;
  const double most = options_.bound * static_cast<double>(all_.size()) / static_cast<double>(listed_);
  const auto accepts = [&](uint32_t s) {
    return answers(s) && (options_.bound == 0 || static_cast<double>(servers_[s].conversations) < most);
  };
  one.version = version_;
  return ring_.Find(one.key, accepts).value_or(kNobody);
}

void Cluster::MoveTo(Conversation& one, uint32_t server) {
  if (one.home == server) return;
  if (one.home != kNobody) --servers_[one.home].conversations;
  ++servers_[server].conversations;
  one.home = server;
}

void Cluster::Turn(uint32_t id) {
  Conversation& one = all_[id];
  if (!one.asks) one.asked_s = now_s_, one.asks = true;
  const uint32_t server = Route(one);
  if (server == kNobody || !servers_[server].up || servers_[server].prompts_free_s > now_s_ + kPatienceS) {
    report_.refused += measured();
    return events_.Push({now_s_ + kRetryS, id, Event::kTurn});
  }
  if (one.turn > 0 && server != one.home && !options_.shared_store) {
    report_.not_found += measured();
    Renew(one);
    return events_.Push({now_s_ + Pause(), id, Event::kTurn});
  }
  MoveTo(one, server);
  Server& at = servers_[server];
  const double first = options_.first_least * std::pow(options_.first_most / options_.first_least, Random());
  const double input = one.turn == 0 ? first : static_cast<double>(options_.input);
  const Tier tier = one.tier;
  Take(id);
  report_.turns += measured();
  const double ready = Fetch(one, tier, server);
  const double again = std::max(0.0, std::min(one.tokens, options_.window) - one.cached);
  if (measured()) recomputed_.Add(now_s_ - options_.warm_up_s, again);
  ++at.running;
  const auto context = static_cast<int64_t>(std::min(one.tokens + input, options_.window));
  const double step = 1e-3 * cost_.StepMs({.rows = at.running, .decoding = at.running, .keys = at.running * context});
  const double decoding = std::min(step / kStepS, kMostDecoding);
  const double work = (RecomputeS(again + input) + input * (one.cached + again) * product_s_) / (1 - decoding);
  at.prompts_free_s = std::max(at.prompts_free_s, ready) + work;
  if (measured()) at.computing_s += work;
  const double first_s = at.prompts_free_s + step;
  if (measured() && one.turn > 0) first_.Add(1e3 * (first_s - one.asked_s));
  one.tokens += input + static_cast<double>(options_.output);
  one.cached = std::min(one.tokens, options_.window);
  one.epoch = at.epoch;
  one.used_s = now_s_;
  Put(id, server, kSlot);
  MakeRoom(server);
  events_.Push({first_s + step * static_cast<double>(options_.output - 1), id, Event::kEnd});
}

double Cluster::Fetch(Conversation& one, Tier tier, uint32_t server) {
  Server& at = servers_[server];
  const double bytes = Bytes(one.cached), load = bytes / (cost_.load_bytes_per_ms * 1e3);
  const bool here = one.holder == server;
  const auto count = [&](int64_t& turns) { turns += measured(); };
  if (one.turn == 0) return count(report_.fresh), now_s_;
  if (tier == kSlot && here) return count(report_.from_slot), now_s_;
  if (tier == kHost && here) return count(report_.from_host), now_s_ + load;
  // A remote cache is fetched only if it would arrive before recomputation finishes.
  const bool reachable = tier == kDisk || (tier != kGone && servers_[one.holder].up);
  double& free_s = here ? at.read_free_s : at.network_free_s;
  const double rate = here ? options_.disk_bytes_per_s : options_.network_bytes_per_s;
  const double there = std::max(free_s, now_s_) + bytes / rate;
  if (!reachable || there - now_s_ > RecomputeS(one.cached)) {
    one.cached = one.saved = 0;
    return count(report_.recomputed), now_s_;
  }
  free_s = there;
  count(here ? report_.from_disk : report_.from_network);
  if (measured()) (here ? disk_ : network_).Add(now_s_ - options_.warm_up_s, bytes);
  if (!here) one.saved = 0;
  return there + load;
}

void Cluster::End(uint32_t id) {
  Conversation& one = all_[id];
  Server& at = servers_[one.home];
  if (one.epoch != at.epoch) {  // its server restarted meanwhile; the acknowledged tokens are those before the turn
    report_.cut += measured();
    one.tokens -= static_cast<double>(options_.input + options_.output);
    one.tokens = std::max(one.tokens, 1.0);
    one.turn = std::max(one.turn, 1);
    return events_.Push({now_s_ + kRetryS, id, Event::kTurn});
  }
  --at.running;
  one.asks = false;
  if (++one.turn == options_.turns) Renew(one);
  events_.Push({now_s_ + Pause(), id, Event::kTurn});
}

void Cluster::Take(uint32_t id) {
  Conversation& one = all_[id];
  if (one.tier == kGone) return;
  Server::List& list = servers_[one.holder].lists[one.tier];
  (one.prev == kNobody ? list.first : all_[one.prev].next) = one.next;
  (one.next == kNobody ? list.last : all_[one.next].prev) = one.prev;
  list.bytes -= Bytes(one.cached);
  one.prev = one.next = kNobody, one.tier = kGone;
}

void Cluster::Put(uint32_t id, uint32_t server, Tier tier) {
  Conversation& one = all_[id];
  Server::List& list = servers_[server].lists[tier];
  one.holder = server, one.tier = tier, one.prev = kNobody, one.next = list.first;
  (list.first == kNobody ? list.last : all_[list.first].prev) = id;
  list.first = id;
  list.bytes += Bytes(one.cached);
}

void Cluster::MakeRoom(uint32_t server) {
  const double budgets[] = {options_.slot_bytes, options_.host_bytes, options_.disk_bytes};
  const double idle[] = {options_.host_idle_s, options_.disk_idle_s, INFINITY};
  for (const Tier tier : {kSlot, kHost, kDisk}) {
    Server::List& list = servers_[server].lists[tier];
    while (list.last != kNobody && (list.bytes > budgets[tier] || now_s_ - all_[list.last].used_s > idle[tier])) {
      Sink(list.last);
    }
  }
}

void Cluster::Sink(uint32_t id) {
  Conversation& one = all_[id];
  const Tier from = one.tier;
  const uint32_t server = one.holder;
  Take(id);
  if (from == kSlot) return Put(id, server, kHost);
  Server& at = servers_[server];
  const double bytes = Bytes(one.cached) - Bytes(one.saved);
  if (from == kDisk || options_.disk_bytes == 0 || at.write_free_s > now_s_ + kWriteBacklogS) {
    one.cached = one.saved = 0;
    return;
  }
  at.write_free_s = std::max(at.write_free_s, now_s_) + bytes / options_.disk_bytes_per_s;
  if (measured()) disk_.Add(now_s_ - options_.warm_up_s, bytes);
  one.saved = one.cached;
  Put(id, server, kDisk);
}

void Cluster::Down(uint32_t server) {
  Server& at = servers_[server];
  at.up = false;
  ++at.epoch, ++version_;
  at.running = 0;
  at.prompts_free_s = now_s_;
  for (const Tier tier : {kSlot, kHost}) {
    while (at.lists[tier].first != kNobody) {
      const uint32_t id = at.lists[tier].first;
      Take(id);
      all_[id].cached = all_[id].saved;  // the part on disk
      if (all_[id].saved > 0) Put(id, server, kDisk);
    }
  }
}

void Cluster::Fail(uint32_t) {
  const auto server = static_cast<uint32_t>(random_() % servers_.size());
  if (servers_[server].up && servers_[server].listed) {
    Down(server);
    events_.Push({now_s_ + options_.restart_s, server, Event::kUp});
  }
  events_.Push({now_s_ + options_.failure_every_s, 0, Event::kFail});
}

void Cluster::Stop(uint32_t) {
  const uint32_t server = next_upgrade_++;
  if (server >= servers_.size()) return;
  Server& at = servers_[server];
  double left = options_.save_s * options_.disk_bytes_per_s;
  for (const Tier tier : {kSlot, kHost}) {
    for (uint32_t id = at.lists[tier].first; id != kNobody && left > 0; id = all_[id].next) {
      const double bytes = Bytes(all_[id].cached) - Bytes(all_[id].saved);
      left -= bytes;
      if (measured()) disk_.Add(now_s_ - options_.warm_up_s, bytes);
      all_[id].saved = all_[id].cached;
    }
  }
  Down(server);
  events_.Push({now_s_ + options_.restart_s, server, Event::kUp});
  events_.Push({now_s_ + options_.upgrade_every_s, 0, Event::kUpgrade});
}

void Cluster::Change() {
  for (uint32_t server = 0; server < options_.lost; ++server) {
    Down(server);
    Server::List& disk = servers_[server].lists[kDisk];
    while (disk.first != kNobody && !options_.shared_store) {
      const uint32_t id = disk.first;
      Take(id);
      all_[id].cached = all_[id].saved = 0;
    }
    servers_[server].listed = false;
  }
  ring_.Remove(static_cast<uint32_t>(options_.lost));
  const auto before = static_cast<uint32_t>(servers_.size());
  servers_.resize(servers_.size() + static_cast<size_t>(options_.added));
  ring_.Add(before, static_cast<uint32_t>(servers_.size()));
  listed_ += options_.added - options_.lost;
  ++version_;
}

ClusterReport Cluster::Run() {
  const double end_s = options_.warm_up_s + options_.measured_s;
  for (Event event = events_.Pop(); event.at_s < end_s; event = events_.Pop()) {
    now_s_ = event.at_s;
    switch (event.kind) {
      case Event::kTurn:
        Turn(event.who);
        break;
      case Event::kEnd:
        End(event.who);
        break;
      case Event::kFail:
        Fail(event.who);
        break;
      case Event::kUpgrade:
        Stop(event.who);
        break;
      case Event::kUp:
        Up(event.who);
        break;
      case Event::kChange:
        Change();
        break;
    }
  }
  double most = 0;
  for (const Server& server : servers_) {
    most = std::max(most, static_cast<double>(server.conversations));
    report_.prompt_share += server.computing_s / options_.measured_s / static_cast<double>(listed_);
    report_.busiest = std::max(report_.busiest, server.computing_s / options_.measured_s);
  }
  report_.fullest = most * static_cast<double>(listed_) / static_cast<double>(all_.size());
  report_.first_p50 = first_.At(0.5), report_.first_p99 = first_.At(0.99), report_.first_p999 = first_.At(0.999);
  recomputed_.Read(options_.measured_s, &report_.recomputed_per_s, &report_.recomputed_peak);
  network_.Read(options_.measured_s, &report_.network_per_s, &report_.network_peak);
  disk_.Read(options_.measured_s, &report_.disk_per_s, &report_.disk_peak);
  return report_;
}

}  // namespace

ClusterReport SimulateCluster(const CostModel& cost, const ClusterOptions& options) {
  return Cluster(cost, options).Run();
}

}  // namespace ringside
