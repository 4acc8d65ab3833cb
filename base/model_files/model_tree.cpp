#include "base/model_files/model_tree.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/model_files/gguf_groups.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 8;
constexpr size_t kMaxEntries = 100'000;
constexpr std::string_view kGguf = ".gguf";

uint64_t SizeOf(const std::string& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  return error ? 0 : bytes;
}

class Walk {
 public:
  Walk(fs::path root, std::vector<FoundModel>& models) : root_(std::move(root)), models_(models) {}
  void Visit(const fs::path& folder, int depth = 0) {
    std::vector<std::string> files;
    std::vector<fs::path> below;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      if (++entries_ > kMaxEntries || entry->path().filename().string().starts_with('.')) continue;
      std::error_code ignored;
      if (entry->is_directory(ignored)) {
        below.push_back(entry->path());
      } else if (entry->is_regular_file(ignored)) {
        files.push_back(entry->path().string());
      }
    }
    AddFiles(files);
    AddFolder(folder, files);
    std::ranges::sort(below);
    for (const fs::path& next : below) {
      if (depth < kMaxDepth) Visit(next, depth + 1);
    }
  }

 private:
  std::string Below(const fs::path& path) const {
    const std::string below = path.lexically_relative(root_).string();
    return below == "." ? root_.filename().string() : below;
  }
  void AddFiles(const std::vector<std::string>& files) {
    for (const GgufModel& model : GroupGgufFiles(files)) {
      FoundModel found{model.name, model.files.front(), Below(model.files.front()), 0, /*is_file=*/true};
      if (found.below.ends_with(kGguf)) found.below.resize(found.below.size() - kGguf.size());
      for (const std::string& file : model.files) found.bytes += SizeOf(file);
      models_.push_back(std::move(found));
    }
  }
  void AddFolder(const fs::path& folder, const std::vector<std::string>& files) {
    uint64_t bytes = 0;
    bool configured = false;
    for (const std::string& file : files) {
      configured |= file.ends_with("/config.json");
      if (file.ends_with(".safetensors")) bytes += SizeOf(file);
    }
    if (configured && bytes > 0) models_.push_back({Below(folder), folder.string(), Below(folder), bytes, false});
  }

  const fs::path root_;
  std::vector<FoundModel>& models_;
  size_t entries_ = 0;
};

}  // namespace

std::vector<FoundModel> FindModelsBelow(const std::string& root) {
  std::vector<FoundModel> models;
  fs::path folder = root;
  if (!folder.has_filename()) folder = folder.parent_path();  // "models/"
  Walk(folder, models).Visit(folder);
  return models;
}

}  // namespace ringside
