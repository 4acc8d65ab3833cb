#include "ws/models/model_texts.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "engine/model/model_facts.h"
#include "engine/slot_plan.h"
#include "ws/config/machine.h"

namespace ringside {
namespace {

/// Adds the defaults that a server with one model takes from its machine, here from the model's share of it.
Status PlanCaches(const ServerConfig& config, const SlabMemory& planner, const ModelSpec& spec, int64_t weight_bytes,
                  EngineOptions* options) {
  if (config.cuda) return Status::Ok();  // its engine takes the memory that the device has left
  if (options->fits_window && options->kv_bytes == 0) {
    if (options->slots == 0) options->slots = EngineOptions().slots;
    options->kv_bytes = CacheBytesLeft({.weight_bytes = weight_bytes}, ModelsMemoryOf(config).each);
  }
  FitWindow(planner, ShapeOf(spec), options);
  return PlanSlots(planner, ShapeOf(spec), options);
}

}  // namespace

ModelsMemory ModelsMemoryOf(const ServerConfig& config) {
  int64_t all = config.models_memory_mb << 20;
  if (all == 0 && config.cuda) return {std::numeric_limits<int64_t>::max(), 0};
  if (all == 0) all = std::max<int64_t>(MachineMemoryBytes() - (config.host_cache_mb << 20), 0);
  return {all, all / config.models_max};
}

ModelTexts::ModelTexts(const ServerConfig& config, ModelList& list, std::unique_ptr<Backend> planner)
    : config_(config), list_(list), planner_(std::move(planner)) {}

Status ModelTexts::ChooseDefault() {
  std::string reasons;
  for (const ListedModel& model : list_.All()) {
    const Status opened = model.reason.empty() ? Open(model.name).status() : InvalidArgument(model.reason);
    if (opened.ok()) {
      LogInfo("models: {} is the default", model.name);
      list_.SetDefault(model.name);
      return Status::Ok();
    }
    reasons += "\n  " + model.name + ": " + opened.message();
  }
  return InvalidArgument("--models-dir: no model can be loaded:" + reasons);
}

Result<std::string> ModelTexts::Resolve(std::string_view asked, std::string_view param) const {
  ASSIGN_OR_RETURN(ListedModel model, list_.Find(asked, param));
  return std::move(model.name);
}

Result<std::shared_ptr<const ModelTexts::Opened>> ModelTexts::Read(const ListedModel& model) const {
  auto opened = std::make_shared<Opened>();
  opened->config = config_;
  opened->config.model = model.path;
  ASSIGN_OR_RETURN(opened->text, ReadModelText(opened->config, model.name));
  ASSIGN_OR_RETURN(opened->engine, ResolveEngineOptions(opened->config, opened->text.spec));
  RETURN_IF_ERROR(PlanCaches(opened->config, *planner_, opened->text.spec, model.weight_bytes, &opened->engine));
  opened->bytes = model.weight_bytes + opened->engine.kv_bytes;
  return std::shared_ptr<const Opened>(std::move(opened));
}

Result<SessionModel> ModelTexts::Open(const std::string& name) {
  ASSIGN_OR_RETURN(const ListedModel model, list_.Find(name, "model"));
  std::shared_ptr<const Opened> opened = Find(model.name);
  if (opened == nullptr) {
    Result<std::shared_ptr<const Opened>> read = Read(model);
    if (!read.ok()) {
      return Status(
          StatusCode::kUnavailable,
          "The model '" + name + "' could not be loaded: " + WithoutPath(read.status().message(), model.path, name),
          "model", kModelLoadFailed);
    }
    opened = *std::move(read);
    const std::lock_guard lock(mutex_);
    opened_.emplace(model.name, opened);
  }
  return SessionModel{ModelOptions(opened->config, opened->text, opened->engine), opened->text.tokenizer,
                      opened->text.chat};
}

std::shared_ptr<const ModelTexts::Opened> ModelTexts::Find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto at = opened_.find(name);
  return at == opened_.end() ? nullptr : at->second;
}

}  // namespace ringside
