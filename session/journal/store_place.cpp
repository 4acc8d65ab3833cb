#include "session/journal/store_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ringside {

Result<StorePlace> StorePlace::Of(std::vector<std::string> paths) {
  StorePlace place;
  for (std::string& path : paths) {
    struct stat found {};
    if (stat(path.c_str(), &found) != 0) return IoError("journal: " + path + ": " + std::strerror(errno));
    place.entries_.push_back({std::move(path), found.st_dev, found.st_ino, S_ISDIR(found.st_mode)});
  }
  return place;
}

Status StorePlace::Check() const {
  Status out;
  for (const Entry& entry : entries_) {
    struct stat found {};
    if (stat(entry.path.c_str(), &found) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return IoError("journal: " + entry.path + " was deleted or moved");
      out = Unavailable("journal: " + entry.path + ": " + std::strerror(errno));
    } else if (found.st_dev != entry.device || found.st_ino != entry.inode) {
      return IoError("journal: " + entry.path + " was replaced");
    } else if (entry.folder && access(entry.path.c_str(), W_OK | X_OK) != 0) {
      out = Unavailable("journal: " + entry.path + " cannot be written: " + std::strerror(errno));
    }
  }
  return out;
}

}  // namespace ringside
