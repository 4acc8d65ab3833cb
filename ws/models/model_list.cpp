#include "ws/models/model_list.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/model_files/gguf_groups.h"
#include "engine/model/model_facts.h"
#include "ws/fields/common_fields.h"

namespace ringside {
namespace {

constexpr std::chrono::seconds kRereadInterval{2};
constexpr size_t kQuotedName = 256;
constexpr std::string_view kTag = ":latest";

Status NoSuchModel(std::string_view asked, std::string_view param, const std::string& why) {
  return NotFound("The model '" + std::string(asked.substr(0, kQuotedName)) + "' " + why, std::string(param),
                  "model_not_found");
}

/// Gives each model a unique name: the short one, or its path below the folder where several have that.
void NameUniquely(std::vector<FoundModel>* found) {
  std::map<std::string, int> count;
  for (const FoundModel& model : *found) ++count[model.name];
  std::set<std::string> used;
  for (FoundModel& model : *found) {
    if (count[model.name] > 1) model.name = model.below;
    if (!used.insert(model.name).second) model.name += model.is_file ? ".gguf" : "/";
    used.insert(model.name);
  }
}

std::filesystem::file_time_type ChangeTime(const std::string& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  return error ? std::filesystem::file_time_type() : time;
}

std::string_view LastPart(std::string_view name) { return name.substr(name.rfind('/') + 1); }

}  // namespace

std::string WithoutPath(std::string message, const std::string& path, const std::string& name) {
  const std::string prefix = path + ": ";
  if (message.starts_with(prefix)) message.erase(0, prefix.size());
  for (size_t at = message.find(path); at != std::string::npos; at = message.find(path, at + name.size())) {
    message.replace(at, path.size(), name);
  }
  return message;
}

ModelList::ModelList(std::string folder, std::vector<std::string> aliases, std::unique_ptr<Backend> checker)
    : folder_(std::move(folder)), aliases_(std::move(aliases)), checker_(std::move(checker)) {}

ListedModel ModelList::Inspect(const FoundModel& found) const {
  ListedModel model{.name = found.name, .path = found.path, .bytes = found.bytes};
  const Result<ModelFacts> facts = ReadModelFacts(found.path, *checker_);
  if (!facts.ok()) {
    model.reason = WithoutPath(facts.status().message(), found.path, found.name);
    return model;
  }
  model.architecture = facts->spec.architecture;
  model.context = facts->spec.context();
  model.weight_bytes = facts->weight_bytes;
  return model;
}

void ModelList::Read() {
  const std::lock_guard one(reading_);
  const auto now = std::chrono::steady_clock::now();
  if (read_at_ && now - *read_at_ < kRereadInterval) return;
  std::vector<FoundModel> found = FindModelsBelow(folder_);
  NameUniquely(&found);
  std::map<std::string, Entry> before, entries;
  {
    const std::lock_guard lock(mutex_);
    before = entries_;
  }
  for (const FoundModel& model : found) {
    const auto changed = ChangeTime(model.path);
    const auto known = before.find(model.name);
    const bool same = known != before.end() && known->second.model.path == model.path &&
                      known->second.model.bytes == model.bytes && known->second.changed == changed;
    entries[model.name] = same ? known->second : Entry{Inspect(model), changed};
  }
  const std::lock_guard lock(mutex_);
  entries_ = std::move(entries);
  read_at_ = std::chrono::steady_clock::now();
}

Status ModelList::Open() {
  std::error_code error;
  if (!std::filesystem::is_directory(folder_, error)) {
    return InvalidArgument("--models-dir: \"" + folder_ + "\" is not a folder that can be read");
  }
  Read();
  if (entries_.empty()) {
    return InvalidArgument("--models-dir: \"" + folder_ +
                           "\" has no model: it wants *.gguf files, or folders with config.json and *.safetensors");
  }
  for (const auto& [name, entry] : entries_) {
    entry.model.reason.empty() ? LogInfo("models: {} ({}, {:.1f} MiB)", name, entry.model.architecture,
                                         static_cast<double>(entry.model.bytes) / (1 << 20))
                               : LogWarning("models: {} cannot be loaded: {}", name, entry.model.reason);
  }
  return Status::Ok();
}

size_t ModelList::CountLoadable() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::ranges::count_if(entries_, [](const auto& entry) { return entry.second.model.reason.empty(); }));
}

std::vector<ListedModel> ModelList::All() {
  Read();
  const std::lock_guard lock(mutex_);
  std::vector<ListedModel> all;
  for (const auto& [name, entry] : entries_) all.push_back(entry.model);
  return all;
}

const ListedModel* ModelList::Match(std::string_view asked) const {
  if (const auto exact = entries_.find(std::string(asked)); exact != entries_.end()) return &exact->second.model;
  const ListedModel* match = nullptr;
  for (const auto& [name, entry] : entries_) {
    if (!EqualsIgnoringCase(name, asked) && !EqualsIgnoringCase(LastPart(name), asked)) continue;
    if (match != nullptr) return nullptr;
    match = &entry.model;
  }
  return match;
}

Result<ListedModel> ModelList::Find(std::string_view asked, std::string_view param) {
  std::string_view name = asked.empty() ? std::string_view(default_) : asked;
  const auto find = [&]() -> std::optional<ListedModel> {
    const std::lock_guard lock(mutex_);
    const ListedModel* match = Match(name);
    if (match == nullptr && name.ends_with(kTag)) match = Match(name.substr(0, name.size() - kTag.size()));
    if (match == nullptr && IsAlias(name, aliases_)) match = Match(default_);
    return match == nullptr ? std::nullopt : std::optional(*match);
  };
  std::optional<ListedModel> found = find();
  if (!found || !found->reason.empty()) {  // the file may be new, or repaired
    Read();
    found = find();
  }
  if (!found) return NoSuchModel(name, param, "does not exist here; GET /v1/models lists those that do.");
  std::error_code error;
  if (!std::filesystem::exists(found->path, error)) {
    return NoSuchModel(name, param, "was removed from --models-dir.");
  }
  if (!found->reason.empty()) {
    return InvalidArgument("The model '" + found->name + "' cannot be loaded: " + found->reason, std::string(param),
                           "model_unsupported");
  }
  return *std::move(found);
}

}  // namespace ringside
