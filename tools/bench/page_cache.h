// Reading with a cold page cache.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

namespace ringside {

/// Drops a folder's files from the page cache.
inline void MakeCold(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const int fd = open(entry.path().c_str(), O_RDONLY);
    if (fd < 0) continue;
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
}

}  // namespace ringside
