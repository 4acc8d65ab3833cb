// The texts of the listed models, each read when a request first names its model, and kept: tens of megabytes for a
// large vocabulary. Also the plan of a model's engine, which its sessions' limits depend on, so that they are known
// before the weights are loaded. Owned by the App.
// THREAD: any.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"
#include "engine/engine_options.h"
#include "kernels/backend.h"
#include "session/model_source.h"
#include "ws/config/config.h"
#include "ws/models/model_list.h"
#include "ws/models/model_text.h"

namespace ringside {

/// Memory of loaded models, in bytes.
struct ModelsMemory {
  int64_t all = 0;   // of all together
  int64_t each = 0;  // share that a model's caches and weights are planned for
};
/// --models-memory-mb, or the machine's memory without the host cache; on a GPU unlimited unless set.
ModelsMemory ModelsMemoryOf(const ServerConfig& config);

class ModelTexts final : public ModelSource {
 public:
  /// REQUIRES: `list` outlives it.
  ModelTexts(const ServerConfig& config, ModelList& list, std::unique_ptr<Backend> planner);
  /// Makes the first listed model whose text can be read the default one.
  /// ERRORS: kInvalidArgument, with the reasons, if there is none.
  Status ChooseDefault();

  Result<std::string> Resolve(std::string_view asked, std::string_view param) const override;
  Result<SessionModel> Open(const std::string& name) override;

  struct Opened {
    ServerConfig config;  // of a server with this model alone
    ModelText text;
    EngineOptions engine;
    int64_t bytes = 0;  // weights and caches when loaded
  };
  /// Null until Open has returned.
  std::shared_ptr<const Opened> Find(const std::string& name) const;

 private:
  Result<std::shared_ptr<const Opened>> Read(const ListedModel& model) const;

  const ServerConfig config_;
  ModelList& list_;
  const std::unique_ptr<Backend> planner_;  // computes the sizes of caches
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Opened>> opened_;
};

}  // namespace ringside
