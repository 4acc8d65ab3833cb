// A temporary data folder for tests, its files as bytes, and the number of test cycles.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace ringside {

/// A folder that is deleted with its owner. In memory if possible: equivalent to a disk for a process that is killed,
/// and much faster.
class DataFolder {
 public:
  DataFolder();
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Every file in the folder, by relative path.
using FileBytes = std::map<std::string, std::string>;
FileBytes ReadFolder(const std::filesystem::path& folder);
/// Makes the folder contain exactly these files.
void WriteFolder(const std::filesystem::path& folder, const FileBytes& files);
/// True if a file in the folder contains these bytes.
bool AnyFileHolds(const std::filesystem::path& folder, const std::string& bytes);

/// RINGSIDE_CRASH_CYCLES, or 2,000: the number of kills, and of power losses, over all tests.
int CrashCycles();

}  // namespace ringside
