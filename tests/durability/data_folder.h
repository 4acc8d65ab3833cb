// A data folder of a test's own, its files as bytes, and how often what is tried is tried.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace ringside {

/// A folder that goes with its owner. In memory where that is possible: as good as a disk for a process that dies, and
/// far faster.
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

/// Every file in it, by its path from there.
using FileBytes = std::map<std::string, std::string>;
FileBytes ReadFolder(const std::filesystem::path& folder);
/// Makes the folder hold exactly these files.
void WriteFolder(const std::filesystem::path& folder, const FileBytes& files);
/// True if a file in it contains these bytes.
bool AnyFileHolds(const std::filesystem::path& folder, const std::string& bytes);

/// RINGSIDE_CRASH_CYCLES, or 2,000: how many kills and how many losses of power a run of all tests tries.
int CrashCycles();

}  // namespace ringside
