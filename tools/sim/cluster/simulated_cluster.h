// The state and the events of the cluster simulation (cluster.h). THREAD: one.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/overload/wait_limit.h"
#include "tools/sim/cluster/cache_tiers.h"
#include "tools/sim/cluster/cluster.h"
#include "tools/sim/cluster/database.h"
#include "tools/sim/cluster/event_queue.h"
#include "tools/sim/cluster/log_histogram.h"
#include "tools/sim/cluster/people.h"
#include "tools/sim/cluster/proxy.h"

namespace ringside {

class SimulatedCluster {
 public:
  /// REQUIRES: the references outlive it.
  SimulatedCluster(const CostModel& cost, const ClusterOptions& options);
  ClusterReport Run();

 private:
  struct Server {
    explicit Server(const WaitLimit& limit) : limit(limit) {}
    WaitLimit limit;
    double misjudgement = 1, size = 1;
    bool up = true;
    uint32_t epoch = 0;      // its incarnation
    double claimable_s = 0;  // when conversations of its last incarnation can be claimed by others
    double noticed_s = 0;    // when the proxy notices its last failure
    int64_t conversations = 0, running = 0;
    double prompts_free_s = 0, computing_s = 0;
    std::deque<double> prompts;  // ends of unfinished prompts
  };
  struct Cell {
    Database database;
    double back_s = 0;  // when the server that went down last is back
  };
  /// The work of a turn on a server, before it is admitted.
  struct Plan {
    int64_t PhaseReport::*source = nullptr;  // of its cache
    double cached = 0, recomputed = 0;       // tokens
    double read_bytes = 0, disk_wait_s = 0;  // from disk; until that read begins
    double read_s = 0;                       // of the cache, by itself
    double ready_s = 0;                      // when the cache is in a slot
    double work_s = 0, step_s = 0;           // of the prompt; of a decode step
  };

  // Turns (turns.cpp).
  void Turn(uint32_t id);
  void Start(uint32_t id, uint32_t server, const Plan& plan, double claims);
  void End(uint32_t id);
  /// The server to which the proxy sends the conversation's request, or kNone.
  uint32_t Connect(Conversation& one);
  void Disconnect(Conversation& one);
  Plan MakePlan(const Conversation& one, uint32_t server);
  void WaitForServer(uint32_t id, uint32_t server);
  void Refuse(uint32_t id, double advised_s);
  void MoveTo(Conversation& one, uint32_t server);
  void Renew(uint32_t id);
  bool IsAlive(const Conversation& one) const;
  double RecomputeS(double tokens) const { return tokens * row_s_ + tokens * tokens / 2 * product_s_; }

  // Servers, zones and databases (outages.cpp).
  void AddServers(int64_t count);
  void Crash(uint32_t server, double back_s);
  void Upgrade();
  void Stopped(uint32_t server);
  void Down(uint32_t server, double claimable_s, double back_s);
  void Up(uint32_t server);
  void Fail();
  void LoseZone();
  void PauseDatabases();
  void Grow();
  void Burst();

  // The run (cluster.cpp).
  void Handle(const Event& event);
  void EndPhase();
  void Schedule(uint32_t id, double at_s, Event::Kind kind);
  void After(double seconds, uint32_t who, Event::Kind kind) { events_.Push({now_s_ + seconds, who, kind}); }
  PhaseReport& phase() { return report_.phases.back(); }

  const CostModel& cost_;
  const ClusterOptions& options_;
  const double row_s_, product_s_;
  People people_;
  Proxy proxy_;
  CacheTiers tiers_;
  std::vector<Server> servers_;
  std::vector<Cell> cells_;
  EventQueue events_;
  double now_s_ = 0, phase_began_s_ = 0, phase_disk_bytes_ = 0;
  uint32_t next_upgrade_ = 0;
  ClusterReport report_;
  LogHistogram first_, asked_;
  std::vector<double> phase_busy_s_;  // of the databases when the phase began
};

}  // namespace ringside
