// What the server counts, in Prometheus' terms: names begin with ringside_ and otherwise are vLLM's, so that its
// dashboards fit. No label ever holds an id or a key. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/token_sink.h"

namespace ringside {

/// Figures that others keep, read at each scrape.
struct MetricsSnapshot {
  EngineStats engine;
  int64_t sessions = 0;
};

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// Names the model served in ringside_model_info.
  void SetModel(const std::string& name);
  /// Replaces the source of the figures that are read at a scrape; none = they stay as they were.
  void SetSource(std::function<MetricsSnapshot()> source);

  // Turns, called on the engine thread.
  void ObserveTimeToFirstToken(double seconds);
  void ObserveInterTokenLatency(double seconds);
  void ObserveTurnEnd(const TurnEnd& end, double seconds);

  // Sockets, called on io threads.
  void WebSocketOpened();
  /// `code`: the close code of the socket, 1006 where it was lost without one.
  void WebSocketClosed(int code);
  void SlowReader();
  void HttpResponded(int status);

  /// The registry in the text format of Prometheus, version 0.0.4.
  std::string Scrape();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A sink that measures what passes through it to `next`: time to the first token from now on, between tokens, whole.
/// `metrics` and `clock` outlive it.
std::shared_ptr<TokenSink> MakeMeasuringSink(std::shared_ptr<TokenSink> next, Metrics& metrics, const Clock& clock);

}  // namespace ringside
