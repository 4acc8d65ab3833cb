#include "ws/access/secret_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace ringside {
namespace {

/// The service manager's credentials folder is accessible to this service only, whatever the files' modes are.
bool IsCredential(const std::string& path) {
  const char* folder = std::getenv("CREDENTIALS_DIRECTORY");
  return folder != nullptr && std::filesystem::path(path).parent_path() == folder;
}

Result<std::string> ReadOpened(int file, const std::string& path, size_t most_bytes) {
  struct stat info {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) return InvalidArgument("\"" + path + "\" is no plain file");
  if ((info.st_mode & 0177) != 0 && !IsCredential(path)) {
    return InvalidArgument(
        fmt::format("\"{}\" has mode {:04o}, so others can read it; run chmod 0400", path, info.st_mode & 07777));
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (size > most_bytes) {
    return InvalidArgument(fmt::format("\"{}\" is longer than {} MiB", path, most_bytes >> 20));
  }
  std::string bytes(size, '\0');
  const ssize_t got = read(file, bytes.data(), bytes.size());
  if (got < 0) return InvalidArgument("cannot read \"" + path + "\": " + std::strerror(errno));
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

}  // namespace

Result<std::string> ReadSecretFile(const std::string& path, size_t most_bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return InvalidArgument("cannot read \"" + path + "\": " + std::strerror(errno));
  Result<std::string> bytes = ReadOpened(file, path, most_bytes);
  close(file);
  return bytes;
}

}  // namespace ringside
