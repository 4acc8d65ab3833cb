// What the server counts, in Prometheus' terms: names begin with ringside_ and otherwise are vLLM's, so that its
// dashboards fit. No label ever holds an id or a key. Any thread.
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
#include "ws/transport/transport_counters.h"

namespace ringside {

/// Figures that others keep, read at each scrape.
struct MetricsSnapshot {
  std::vector<FleetEngine> engines;
  TieredStoreStats tiers;
  JournalStats journal;
  SessionTableStats sessions;
  WorkerPoolStats workers;
  ProcessFigures process;
  bool ready = false;         // turns are answered
  double last_backup_at = 0;  // seconds since 1970; 0 = there is no backup
};

class Metrics {
 public:
  /// `transport` outlives the metrics. Of several engines every figure has a label with its number.
  explicit Metrics(const TransportCounters& transport, size_t engines = 1);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// Names the model served in ringside_model_info.
  void SetModel(const std::string& name);
  /// Replaces the source of the figures that are read at a scrape; none = they stay as they were.
  void SetSource(std::function<MetricsSnapshot()> source);

  // Turns, called on the engine thread. Of a histogram's own mutex only a scrape holds it, while it copies it.
  void ObserveTimeToFirstToken(double seconds);
  void ObserveInterTokenLatency(double seconds);
  void ObserveTurnEnd(const TurnEnd& end, double seconds, int64_t now_ns);
  /// In how many milliseconds there should be room for a turn that is refused now, `waiting` turns being in line. Any
  /// thread.
  int64_t RetryAfterMs(int64_t waiting, int64_t now_ns) const;

  /// The registry in the text format of Prometheus, version 0.0.4.
  std::string Scrape();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A sink that measures what passes through it to `next`: time to the first token from now on, between tokens, whole.
/// Calls `ended`, if there is one, once `next` has heard of the end and is let go. `metrics` and `clock` outlive it.
std::shared_ptr<TokenSink> MakeMeasuringSink(std::shared_ptr<TokenSink> next, Metrics& metrics, const Clock& clock,
                                             std::function<void()> ended = nullptr);

}  // namespace ringside
