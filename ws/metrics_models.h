// Metrics of models that are loaded on demand, with one label: the model's name, which comes from a file. Made with the
// first model that a turn names, so a server with one model has none. Owned by Metrics, used under its mutex.
#pragma once

#include <memory>
#include <vector>

#include "ws/models/model_status.h"

namespace prometheus {
class Registry;
}

namespace ringside {

class ModelFigures {
 public:
  /// REQUIRES: `registry` outlives this object.
  explicit ModelFigures(prometheus::Registry& registry);
  ~ModelFigures();
  void Set(const std::vector<ModelStatus>& models);

 private:
  struct Families;
  prometheus::Registry& registry_;
  std::unique_ptr<Families> families_;
};

}  // namespace ringside
