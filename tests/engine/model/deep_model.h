// A golden model with more layers than it has: its own ones again and again, each with weights a little smaller, so
// that no two layers are alike. In a folder of its own, gone with the object.
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
