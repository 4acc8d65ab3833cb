// Metrics of other components: engine, cache tiers, journal, sessions, workers, process. Read from a MetricsSnapshot at
// each scrape. Owned by Metrics, used under its mutex.
#pragma once

#include <memory>

#include "ws/metrics.h"

namespace prometheus {
class Registry;
}

namespace ringside {

class FollowedFigures {
 public:
  /// REQUIRES: `registry` outlives this object.
  FollowedFigures(prometheus::Registry& registry, size_t engines);
  ~FollowedFigures();
  void Set(const MetricsSnapshot& now);

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

}  // namespace ringside
