#include "ws/app_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace ringside {
namespace {

Status Failure(const std::string& what, const std::string& path, int error) {
  return IoError("--store-path: cannot " + what + " " + path + ": " + std::strerror(error));
}

}  // namespace

Result<StoreLock> StoreLock::Acquire(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::absolute(folder).parent_path();
  std::filesystem::create_directories(parent, error);
  if (error) return Failure("make", parent.string(), error.value());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return Failure("make", folder, errno);
  const std::string path = folder + "/lock";
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return Failure("open", path, errno);
  StoreLock lock(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Failure("lock", path, errno);
    char holder[32] = {};
    const ssize_t bytes = pread(descriptor, holder, sizeof(holder) - 1, 0);
    std::string process(holder, bytes > 0 ? static_cast<size_t>(bytes) : 0);
    while (!process.empty() && process.back() == '\n') process.pop_back();
    return Status(StatusCode::kBusy, "--store-path: " + folder + " is in use by another server" +
                                         (process.empty() ? "" : " (process " + process + ")"));
  }
  const std::string process = std::to_string(getpid()) + "\n";
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, process.data(), process.size(), 0) != static_cast<ssize_t>(process.size())) {
    return Failure("write", path, errno);
  }
  return lock;
}

StoreLock::~StoreLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace ringside
