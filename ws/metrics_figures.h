// Metrics of other components: engine, cache tiers, journal, sessions, workers, process. Read from a MetricsSnapshot at
// each scrape. Owned by Metrics, used under its mutex.
#pragma once

#include <memory>

#include "ws/metric_registry.h"
#include "ws/metrics.h"

namespace ringside {

class FollowedFigures {
 public:
  /// REQUIRES: `registry` outlives this object.
  FollowedFigures(MetricRegistry& registry, size_t engines);
  ~FollowedFigures();
  void Set(const MetricsSnapshot& now);

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

}  // namespace ringside
