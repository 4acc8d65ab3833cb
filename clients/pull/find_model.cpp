#include "clients/pull/find_model.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/cli/near_name.h"
#include "clients/models/gguf_choice.h"
#include "clients/models/local_models.h"
#include "clients/models/model_folders.h"
#include "clients/pull/pull.h"

namespace ringside::client {
namespace {

bool LooksLikePath(const std::string& name) {
  return name.starts_with('/') || name.starts_with('.') || name.starts_with('~') || name.ends_with(".gguf");
}

/// The models in the folder of a repository from which some were pulled.
std::vector<LocalModel> PulledFrom(const std::vector<LocalModel>& models, const PullReference& reference) {
  const std::string folder = ModelsFolder() + "/" + reference.Place();
  std::vector<LocalModel> pulled;
  for (const LocalModel& model : models) {
    if (model.path == folder || model.path.starts_with(folder + "/")) pulled.push_back(model);
  }
  return pulled;
}

/// The path of a model that an earlier pull of this reference left; "" if there is none.
std::string PulledPath(const std::vector<LocalModel>& models, const PullReference& reference) {
  if (reference.kind == PullReference::Kind::kOllama) {
    const std::string path = ModelsFolder() + "/" + reference.Place();
    const auto found = std::ranges::find(models, path, &LocalModel::path);
    return found == models.end() ? "" : path;
  }
  if (reference.kind != PullReference::Kind::kHub) return "";
  const std::vector<LocalModel> pulled = PulledFrom(models, reference);
  std::vector<std::string> files;
  for (const LocalModel& model : pulled) {
    if (reference.variant.empty() && !model.path.ends_with(".gguf")) return model.path;
    // A split model is listed as its first part: its name without the number is enough.
    files.push_back(model.name + ".gguf");
  }
  const std::vector<GgufModel> ggufs = GroupGgufFiles(files);
  const Outcome<GgufModel> chosen = ChooseGguf(ggufs, reference.variant);
  if (!chosen) return "";
  const auto found = std::ranges::find(pulled, chosen->name, &LocalModel::name);
  return found == pulled.end() ? "" : found->path;
}

Failure SeveralNamed(const std::string& name, const std::vector<LocalModel>& named) {
  std::string names;
  for (const LocalModel& model : named) names += (names.empty() ? "" : ", ") + model.name;
  return Failure{"\"" + name + "\" can mean several models: " + names + "."};
}

std::string Suggestion(const std::vector<LocalModel>& models, const std::string& name) {
  std::vector<std::string_view> names;
  for (const LocalModel& model : models) names.push_back(model.name);
  const std::string_view near = NearName(name, names);
  return near.empty() ? " `ringside models` lists the models on this machine."
                      : " Did you mean " + std::string(near) + "?";
}

}  // namespace

Outcome<std::string> FindModel(const std::string& name) {
  std::error_code error;
  if (std::filesystem::exists(name, error)) return name;
  const std::vector<LocalModel> models = FindLocalModels();
  if (LooksLikePath(name)) return Failure{"There is no file or folder " + name + "." + Suggestion(models, name)};
  const std::vector<LocalModel> named = ModelsNamed(models, name);
  if (named.size() == 1) return named.front().path;
  if (named.size() > 1) return SeveralNamed(name, named);
  const Outcome<PullReference> reference = ParsePullReference(name);
  if (!reference) return Failure{"There is no model \"" + name + "\"." + Suggestion(models, name)};
  const std::string pulled = PulledPath(models, *reference);
  if (!pulled.empty()) return pulled;
  std::fprintf(stderr, "There is no model \"%s\" on this machine; pulling it.\n", name.c_str());
  const Outcome<std::string> path = Pull(*reference, {});
  if (!path) return Failure{path.failure().message + Suggestion(models, name)};
  return path;
}

}  // namespace ringside::client
