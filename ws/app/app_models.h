// The server's model on its devices: a copy for each engine, which the ranks of
// --tensor-parallel-size and --pipeline-parallel-size share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/ranks/processes.h"
#include "ws/config/config.h"

namespace ringside {

struct ModelCopy {
  std::vector<std::unique_ptr<Backend>> ranks;
  std::unique_ptr<Model> model;  // on them: goes first

  /// kUnavailable once one of its devices has failed, or a process that shares it is lost.
  Status device_status() const;
  bool devices_ok() const { return device_status().ok(); }
};

/// Makes the backends, at first: whoever asks why this failed looks at them. Loads a copy for each engine then, all at
/// the same time. kInvalidArgument, naming the setting, where the model would be slower for being shared, or cannot be
/// by so many processes.
Status LoadModels(const ServerConfig& config, Processes& processes, std::vector<ModelCopy>* copies);
/// The names of its adapters, of which the log is told. kInvalidArgument where one is the model's own.
Result<std::vector<std::string>> AdapterNames(const ServerConfig& config, const std::string& model_name);
/// What a process does that is not the first: has its ranks of the model, until the first tells it to end. Errors as
/// LoadModels; kUnavailable where another process or a device is gone.
Status FollowModel(const ServerConfig& config, Processes& processes);

}  // namespace ringside
