// A golden model with more layers: its own layers repeated, each with slightly smaller weights, so that no two are
// alike. In a temporary folder, deleted with the object.
#pragma once

#include <string>

namespace ringside {

class DeepModel {
 public:
  /// `name`: of a golden Hugging Face folder.
  DeepModel(const std::string& name, int64_t layers);
  ~DeepModel();
  DeepModel(const DeepModel&) = delete;
  DeepModel& operator=(const DeepModel&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ringside
