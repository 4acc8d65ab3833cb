// Metrics of models that are loaded on demand, with one label: the model's name, which comes from a file. Made with the
// first model that a turn names, so a server with one model has none. Owned by Metrics, used under its mutex.
#pragma once

#include <memory>
#include <vector>

#include "ws/metric_registry.h"
#include "ws/models/model_status.h"

namespace ringside {

class ModelFigures {
 public:
  /// REQUIRES: `registry` outlives this object.
  explicit ModelFigures(MetricRegistry& registry);
  ~ModelFigures();
  void Set(const std::vector<ModelStatus>& models);

 private:
  struct Families;
  MetricRegistry& registry_;
  std::unique_ptr<Families> families_;
};

}  // namespace ringside
