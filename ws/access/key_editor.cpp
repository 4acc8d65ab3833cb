#include "ws/access/key_editor.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "ws/access/secret_file.h"

namespace ringside {
namespace {

Status Failed(const char* what, const std::string& path) {
  return InvalidArgument(std::string("cannot ") + what + " \"" + path + "\": " + std::strerror(errno));
}

/// Closes a file descriptor, and releases its lock, at the end of a scope.
class OpenFile {
 public:
  explicit OpenFile(int number) : number_(number) {}
  ~OpenFile() {
    if (number_ >= 0) close(number_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int number() const { return number_; }
  bool ok() const { return number_ >= 0; }

 private:
  const int number_;
};

bool WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(file, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return true;
}

/// A server that runs as another user than the editor must still be able to read the file.
Status KeepOwner(int draft, const std::string& path) {
  struct stat old {};
  if (stat(path.c_str(), &old) != 0) return Status::Ok();  // no old file
  struct stat made {};
  if (fstat(draft, &made) == 0 && made.st_uid == old.st_uid && made.st_gid == old.st_gid) return Status::Ok();
  return fchown(draft, old.st_uid, old.st_gid) == 0 ? Status::Ok() : Failed("keep the owner of", path);
}

Status Replace(const std::string& path, const std::string& text) {
  std::string draft = path + ".XXXXXX";
  const OpenFile file(mkostemp(draft.data(), O_CLOEXEC));  // mode 0600
  if (!file.ok()) return Failed("write beside", path);
  Status status = KeepOwner(file.number(), path);
  if (status.ok() && (!WriteAll(file.number(), text) || fsync(file.number()) != 0)) status = Failed("write", draft);
  if (status.ok() && rename(draft.c_str(), path.c_str()) != 0) status = Failed("replace", path);
  if (!status.ok()) {
    unlink(draft.c_str());
    return status;
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const OpenFile parent(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return parent.ok() && fsync(parent.number()) == 0 ? Status::Ok() : Failed("sync the folder of", path);
}

}  // namespace

Result<KeysFile> ReadKeysFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadSecretFile(path, kMaxKeysFileBytes));
  Result<KeysFile> file = ParseKeysFile(text);
  if (!file.ok()) return InvalidArgument("\"" + path + "\": " + file.status().message());
  return file;
}

Status EditKeysFile(const std::string& path, const std::function<Status(KeysFile&)>& change) {
  std::error_code error;
  // Follows links, so that a link keeps pointing to the file.
  const auto resolved = std::filesystem::canonical(path, error);
  const std::string target = error ? path : resolved.string();
  const std::string lock_path = target + ".lock";
  const OpenFile lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.ok() || flock(lock.number(), LOCK_EX) != 0) return Failed("lock", lock_path);
  KeysFile file;
  if (access(target.c_str(), F_OK) == 0 || errno != ENOENT) {
    ASSIGN_OR_RETURN(file, ReadKeysFile(target));
  }
  RETURN_IF_ERROR(change(file));
  return Replace(target, FormatKeysFile(file));
}

}  // namespace ringside
