// The server's model on its devices: one copy per engine, shared by the ranks of --tensor-parallel-size and
// --pipeline-parallel-size.
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
  std::unique_ptr<Model> model;  // uses the backends: destroyed first

  /// kUnavailable once a device has failed or a process of the group is lost.
  Status device_status() const;
  bool devices_ok() const { return device_status().ok(); }
};

/// Creates all backends first, so that a failure can be diagnosed from them, then loads one copy per engine
/// concurrently.
/// ERRORS: kInvalidArgument, naming the setting, if the model cannot be split over these processes or would be slower
/// split.
Status LoadModels(const ServerConfig& config, Processes& processes, std::vector<ModelCopy>* copies);
/// Returns and logs the adapters' names.
/// ERRORS: kInvalidArgument if an adapter has the model's name.
Result<std::vector<std::string>> AdapterNames(const ServerConfig& config, const std::string& model_name);
/// Runs this process's ranks of the model until the first process ends them.
/// ERRORS: as LoadModels; kUnavailable if another process or a device is lost.
Status FollowModel(const ServerConfig& config, Processes& processes);

}  // namespace ringside
