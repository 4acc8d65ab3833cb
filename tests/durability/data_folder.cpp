#include "tests/durability/data_folder.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/check.h"

namespace ringside {
namespace fs = std::filesystem;

DataFolder::DataFolder() {
  std::string name = (fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string()) + "/durability.XXXXXX";
  CHECK(mkdtemp(name.data()) != nullptr);
  path_ = name;
}
DataFolder::~DataFolder() { fs::remove_all(path_); }

FileBytes ReadFolder(const fs::path& folder) {
  FileBytes out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    out[fs::relative(entry.path(), folder).string()] = bytes.str();
  }
  return out;
}

void WriteFolder(const fs::path& folder, const FileBytes& files) {
  fs::remove_all(folder);
  for (const auto& [name, bytes] : files) {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
}

bool AnyFileHolds(const fs::path& folder, const std::string& bytes) {
  for (const auto& [name, content] : ReadFolder(folder)) {
    if (content.find(bytes) != std::string::npos) return true;
  }
  return false;
}

int CrashCycles() {
  const char* text = std::getenv("RINGSIDE_CRASH_CYCLES");
  return text == nullptr ? 2000 : std::atoi(text);
}

}  // namespace ringside
