#include "ws/models/model_report.h"

#include <algorithm>
#include <map>
#include <string>

#include "ws/models/model_list.h"
#include "ws/models/model_pool.h"
#include "ws/models/model_texts.h"

namespace ringside {
namespace {

ServedModel LimitsOfModel(const std::string& name, const ModelTexts& texts, double created_s) {
  if (const auto opened = texts.Find(name)) {
    return ServedModelOf(ModelOptions(opened->config, opened->text, opened->engine), created_s);
  }
  return {.name = name, .created = static_cast<int64_t>(created_s)};
}

void SetStatus(const ModelStatus& status, ServedModel* model) {
  model->state = status.state;
  model->reason = status.failure;
  model->memory_bytes = status.bytes;
  model->running = status.running;
  model->waiting = status.waiting;
}

}  // namespace

std::vector<ServedModel> ListPooledModels(ModelList& list, const ModelTexts& texts, const ModelPool& pool,
                                          double created_s) {
  std::map<std::string, ModelStatus> pooled;
  for (ModelStatus& status : pool.Models()) pooled.emplace(status.name, std::move(status));
  std::vector<ServedModel> all;
  for (const ListedModel& listed : list.All()) {
    ServedModel& model = all.emplace_back(LimitsOfModel(listed.name, texts, created_s));
    if (model.request_len == 0) model.request_len = listed.context;
    model.aliases.clear();  // of the default model
    model.state = listed.reason.empty() ? "unloaded" : "unsupported";
    model.reason = listed.reason;
    model.family = listed.architecture;
    model.file_bytes = static_cast<int64_t>(listed.bytes);
    model.default_model = listed.name == list.default_name();
    const auto at = pooled.find(listed.name);
    if (at == pooled.end()) continue;
    if (listed.reason.empty()) SetStatus(at->second, &model);
    pooled.erase(at);
  }
  for (const auto& [name, status] : pooled) {
    if (status.state == "unloaded" || status.state == "failed") continue;
    SetStatus(status, &all.emplace_back(LimitsOfModel(name, texts, created_s)));
  }
  std::ranges::stable_partition(all, &ServedModel::default_model);
  return all;
}

}  // namespace ringside
