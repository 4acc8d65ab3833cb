// A folder for tests of the stores, deleted with its last user.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/check.h"

namespace ringside {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tiers_test.XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ringside
