// The server's Prometheus metrics. Names begin with ringside_ and otherwise match vLLM's, so that its dashboards work.
// No label holds an id or a key.
// THREAD: any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/worker_pool.h"
#include "cache/store/tiered_store.h"
#include "engine/fleet/engine_fleet.h"
#include "engine/token_sink.h"
#include "session/journal/journal.h"
#include "session/session_info.h"
#include "ws/config/machine.h"
#include "ws/models/model_status.h"
#include "ws/transport/transport_counters.h"

namespace ringside {

/// Statistics of other components, read at each scrape.
struct MetricsSnapshot {
  std::vector<FleetEngine> engines;
  TieredStoreStats tiers;
  JournalStats journal;
  SessionTableStats sessions;
  WorkerPoolStats workers;
  ProcessFigures process;
  bool ready = false;                    // turns would be answered
  double last_backup_at = 0;             // seconds since 1970; 0 = no backup
  std::vector<ModelStatus> models = {};  // with --models-dir
};

class Metrics {
 public:
  /// REQUIRES: `transport` outlives the metrics. With several engines every metric has an engine label.
  explicit Metrics(const TransportCounters& transport, size_t engines = 1);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// Sets the model's name in ringside_model_info.
  void SetModel(const std::string& name);
  /// Replaces the source of values read at a scrape; null = they keep their last values.
  void SetSource(std::function<MetricsSnapshot()> source);

  // Turn metrics, called on the engine thread. Only a scrape contends for a histogram's mutex, while it copies the
  // values.
  void ObserveTimeToFirstToken(double seconds);
  void ObserveInterTokenLatency(double seconds);
  void ObserveTurnEnd(const TurnEnd& end, double seconds, int64_t now_ns);
  /// Estimated milliseconds until a refused turn finds room behind `waiting` queued turns.
  /// THREAD: any.
  int64_t RetryAfterMs(int64_t waiting, int64_t now_ns) const;

  /// The registry in Prometheus text format, version 0.0.4.
  std::string Scrape();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns a sink that measures the turn and forwards to `next`: time to first token from now, inter-token times,
/// total. Calls `ended`, if set, after `next` has received the end and was released.
/// REQUIRES: `metrics` and `clock` outlive it.
std::shared_ptr<TokenSink> MakeMeasuringSink(std::shared_ptr<TokenSink> next, Metrics& metrics, const Clock& clock,
                                             std::function<void()> ended = nullptr);

}  // namespace ringside
