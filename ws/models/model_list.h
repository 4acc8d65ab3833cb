// The models below --models-dir, by name: the only names that requests can use, so a request's text never becomes a
// path. Each file's headers are read once, and again when the file changes. Owned by the ModelPool.
// THREAD: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/model_files/model_tree.h"
#include "base/status.h"
#include "kernels/backend.h"

namespace ringside {

struct ListedModel {
  std::string name;    // unique
  std::string path;    // for Model::Load
  uint64_t bytes = 0;  // of its files
  std::string reason;  // why it cannot be loaded; "" = it can
  std::string architecture;
  int64_t context = 0;  // tokens that it was trained for; 0 = unbounded
  int64_t weight_bytes = 0;
};

/// A message about the model at `path` for clients, which learn no paths: its own name instead.
std::string WithoutPath(std::string message, const std::string& path, const std::string& name);

class ModelList {
 public:
  /// `aliases`: more names of the default model. `checker`: a backend that loads nothing.
  ModelList(std::string folder, std::vector<std::string> aliases, std::unique_ptr<Backend> checker);
  /// Reads the folder.
  /// ERRORS: kInvalidArgument if it is no folder or has no model.
  Status Open();
  /// The default model. REQUIRES: called before requests are served.
  void SetDefault(std::string name) { default_ = std::move(name); }
  const std::string& default_name() const { return default_; }

  /// Number of models that can be loaded, as last read.
  size_t CountLoadable() const;
  /// All models by name, also those that cannot be loaded. Reads the folder again if the last time is long ago.
  std::vector<ListedModel> All();
  /// The model that a request means: by its name, its last part, without regard to case or with ":latest"; "" and
  /// aliases mean the default model.
  /// ERRORS: kNotFound (model_not_found), kInvalidArgument (model_unsupported), with `param`.
  Result<ListedModel> Find(std::string_view asked, std::string_view param);

 private:
  struct Entry {
    ListedModel model;
    std::filesystem::file_time_type changed;
  };

  /// Reads the folder, at most once in kRereadInterval.
  void Read();
  ListedModel Inspect(const FoundModel& found) const;
  /// Null if the name means none, or several.
  const ListedModel* Match(std::string_view asked) const;

  const std::string folder_;
  const std::vector<std::string> aliases_;
  const std::unique_ptr<Backend> checker_;
  std::string default_;
  std::mutex reading_;  // one thread reads the folder
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // by name
  std::optional<std::chrono::steady_clock::time_point> read_at_;
};

}  // namespace ringside
