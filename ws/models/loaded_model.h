// A model in memory: its weights on the devices and its engines. Owned by the ModelPool. THREAD: one at a time for Load
// and Start; the engines as EngineFleet.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/fleet/engine_fleet.h"
#include "kernels/ranks/processes.h"
#include "ws/app/app_models.h"
#include "ws/config/config.h"
#include "ws/models/model_text.h"

namespace ringside {

class Storage;

class LoadedModel {
 public:
  /// Loads the weights of `config.model` into `copies`, which shows the state of the devices also after a failure.
  /// ERRORS: as LoadModels.
  static Status LoadWeights(const ServerConfig& config, Processes& processes, std::vector<ModelCopy>* copies);
  /// Starts one engine per copy and runs a turn through each. Takes the copies; not on an error.
  /// REQUIRES: `storage` outlives it.
  /// ERRORS: kInvalidArgument, with the numbers, if the caches do not fit; kUnavailable if the first turn failed.
  static Result<std::unique_ptr<LoadedModel>> Start(const ServerConfig& config, std::vector<ModelCopy>* copies,
                                                    ModelText text, EngineOptions options, const Storage& storage);
  ~LoadedModel();

  const ModelText& text() const { return text_; }
  const Model& model() const { return *copies_.front().model; }
  EngineFleet& engines() { return *engines_; }
  const EngineFleet& engines() const { return *engines_; }
  /// Weights and cache memory.
  int64_t bytes() const;
  /// Ok, or the failure of a device or of all engines.
  Status status() const;
  bool devices_ok() const;

 private:
  LoadedModel(std::vector<ModelCopy> copies, ModelText text, std::unique_ptr<EngineFleet> engines);

  std::vector<ModelCopy> copies_;
  const ModelText text_;
  std::unique_ptr<EngineFleet> engines_;  // uses the copies: destroyed first
};

/// Runs one turn through an engine, so that readiness implies a working engine.
Status WarmUp(Engine& engine, const TokenizerData& data);

}  // namespace ringside
