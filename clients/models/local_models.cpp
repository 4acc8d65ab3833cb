#include "clients/models/local_models.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/model_files/gguf_groups.h"
#include "base/model_files/model_tree.h"
#include "clients/models/model_folders.h"
#include "clients/models/ollama_manifest.h"

namespace ringside::client {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 8;
constexpr size_t kMaxManifestBytes = 1 << 20;

using Models = std::vector<LocalModel>;

uint64_t SizeOf(const fs::path& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  return error ? 0 : bytes;
}

/// "Qwen/Qwen3-4B" of "models--Qwen--Qwen3-4B", else "".
std::string RepositoryOf(const std::string& folder) {
  constexpr std::string_view kPrefix = "models--";
  const size_t owner_end = folder.find("--", kPrefix.size());
  if (!folder.starts_with(kPrefix) || owner_end == std::string::npos) return "";
  return folder.substr(kPrefix.size(), owner_end - kPrefix.size()) + "/" + folder.substr(owner_end + 2);
}

void AddTree(const std::string& root, const char* place, const std::string& name, Models& models) {
  if (root.empty()) return;
  for (FoundModel& found : FindModelsBelow(root)) {
    models.push_back({name.empty() || found.is_file ? found.name : name, place, found.path, found.bytes});
  }
}

std::string ReadSmallFile(const fs::path& path) {
  if (SizeOf(path) > kMaxManifestBytes) return "";
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Adds the newest snapshot of each repository: that of the branch "main" if it was fetched.
void AddHuggingFace(const std::string& hub, Models& models) {
  std::error_code error;
  for (fs::directory_iterator entry(hub, error), end; !error && entry != end; entry.increment(error)) {
    const std::string repository = RepositoryOf(entry->path().filename().string());
    if (repository.empty()) continue;
    std::string revision = ReadSmallFile(entry->path() / "refs/main");
    std::erase_if(revision, [](char c) { return c <= ' ' || c == '/'; });
    fs::path newest = entry->path() / "snapshots" / revision;
    std::error_code ignored;
    if (revision.empty() || !fs::is_directory(newest, ignored)) {
      fs::file_time_type latest = fs::file_time_type::min();
      for (fs::directory_iterator one(entry->path() / "snapshots", ignored); !ignored && one != end;
           one.increment(ignored)) {
        std::error_code unknown;
        const auto time = one->last_write_time(unknown);
        if (!unknown && time > latest) latest = time, newest = one->path();
      }
    }
    AddTree(newest.string(), "Hugging Face", repository, models);
  }
}

/// "qwen3:4b", "owner/qwen3:4b" or "host/owner/qwen3:4b" of a manifest's path.
std::string OllamaName(const fs::path& below) {
  std::string name;
  int at = 0;
  const auto parts = std::distance(below.begin(), below.end());
  for (const fs::path& part : below) {
    const bool usual = (at == 0 && part == "registry.ollama.ai") || (at == 1 && part == "library");
    if (!usual) name += (name.empty() ? "" : at + 1 == parts ? ":" : "/") + part.string();
    ++at;
  }
  return name;
}

void AddOllama(const fs::path& folder, Models& models) {
  std::error_code error;
  const fs::path manifests = folder / "manifests";
  for (fs::recursive_directory_iterator entry(manifests, error), end; !error && entry != end; entry.increment(error)) {
    if (entry.depth() > kMaxDepth) entry.disable_recursion_pending();
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    const Outcome<OllamaLayer> layer = ReadOllamaManifest(ReadSmallFile(entry->path()));
    if (!layer) continue;
    const fs::path blob = folder / "blobs" / ("sha256-" + layer->sha256);
    // Ollama's own partial blobs have other names, but a full disk leaves short ones.
    if (SizeOf(blob) != layer->size) continue;
    models.push_back({OllamaName(entry->path().lexically_relative(manifests)), "Ollama", blob.string(), layer->size});
  }
}

/// The name without a quantisation and the separator before it.
std::string_view WithoutQuantisation(std::string_view name) {
  const std::string file = std::string(name) + ".gguf";
  const std::vector<GgufModel> models = GroupGgufFiles({&file, 1});
  const size_t ending = models.empty() ? 0 : models.front().quantisation.size();
  return ending == 0 || ending + 1 >= name.size() ? name : name.substr(0, name.size() - ending - 1);
}

bool IsNamed(const LocalModel& model, std::string_view name) {
  const std::string_view all = model.name;
  const std::string_view last = all.substr(all.rfind('/') + 1);
  return EqualsIgnoringCase(all, name) || EqualsIgnoringCase(last, name) ||
         EqualsIgnoringCase(WithoutQuantisation(last), name) || EqualsIgnoringCase(all, std::string(name) + ":latest");
}

}  // namespace

std::vector<LocalModel> FindLocalModels() {
  Models models;
  const auto add = [&](const auto& find) {
    const auto first = static_cast<ptrdiff_t>(models.size());
    find();
    std::ranges::sort(models.begin() + first, models.end(), {}, &LocalModel::name);
  };
  add([&] { AddTree(ModelsFolder(), "ringside", "", models); });
  add([&] { AddHuggingFace(HuggingFaceFolder(), models); });
  add([&] {
    for (const std::string& folder : LmStudioFolders()) AddTree(folder, "LM Studio", "", models);
  });
  add([&] {
    for (const std::string& folder : OllamaFolders()) AddOllama(folder, models);
  });
  return models;
}

std::vector<LocalModel> ModelsNamed(const std::vector<LocalModel>& models, std::string_view name) {
  std::vector<LocalModel> named;
  const auto keep = [&](const auto& fits) {
    for (const LocalModel& model : models) {
      const auto same = [&](const LocalModel& other) { return EqualsIgnoringCase(other.name, model.name); };
      if (fits(model) && std::ranges::none_of(named, same)) named.push_back(model);
    }
  };
  keep([&](const LocalModel& model) { return EqualsIgnoringCase(model.name, name); });
  if (named.empty()) keep([&](const LocalModel& model) { return IsNamed(model, name); });
  return named;
}

}  // namespace ringside::client
