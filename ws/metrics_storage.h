// The figures of what is kept: cache tiers, journal, sessions. Read from a MetricsSnapshot at each scrape. Owned by
// Metrics, used under its mutex.
#pragma once

#include <memory>

#include "ws/metrics.h"

namespace prometheus {
class Registry;
}

namespace ringside {

class StorageMetrics {
 public:
  /// `registry` outlives it.
  explicit StorageMetrics(prometheus::Registry& registry);
  ~StorageMetrics();
  void Set(const MetricsSnapshot& now);

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

}  // namespace ringside
