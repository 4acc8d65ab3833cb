#include "clients/pull/model_download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace ringside::client {
namespace {

namespace fs = std::filesystem;

Failure CannotUse(const fs::path& path, const std::error_code& error) {
  return Failure{"Cannot use " + path.string() + ": " + error.message() + "."};
}

/// The hidden folder in which a model's files arrive, locked.
class Staging {
 public:
  Staging(const fs::path& folder, const std::string& target) {
    std::string name = target;
    for (size_t at = 0; (at = name.find('/', at)) != std::string::npos; at += 3) name.replace(at, 1, "%2F");
    path_ = folder / ".partial" / name;
  }
  ~Staging() {
    if (lock_ >= 0) ::close(lock_);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  Outcome<Done> Open() {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) return CannotUse(path_, error);
    lock_ = ::open((path_.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) == 0) return TakeBack();
    if (lock_ >= 0 && errno == EWOULDBLOCK) return Failure{"Another command fetches this model."};
    return CannotUse(path_, std::error_code(errno, std::generic_category()));
  }
  fs::path File(const std::string& name) const { return path_ / "files" / name; }
  /// Where the file's bytes arrive.
  fs::path Part(const std::string& name) const { return path_ / (name + ".part"); }
  fs::path Files() const { return path_ / "files"; }

  /// Gives the whole files their names.
  Outcome<Done> NameFiles(const std::vector<RemoteFile>& files) const {
    std::error_code error;
    fs::remove_all(Files(), error);
    fs::create_directories(Files(), error);
    for (const RemoteFile& file : files) {
      if (!error) fs::rename(Part(file.name), File(file.name), error);
    }
    if (error) return CannotUse(Files(), error);
    return Done{};
  }
  void Remove() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    fs::remove(path_.string() + ".lock", ignored);
  }

 private:
  /// Continues after an end between NameFiles and Place.
  Outcome<Done> TakeBack() const {
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator entry(Files(), error), end; !error && entry != end; entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    for (const std::string& name : names) fs::rename(File(name), Part(name), error);
    return Done{};
  }

  fs::path path_;
  int lock_ = -1;
};

/// Makes renames in the folder durable.
void SyncFolder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

/// A file without a digest cannot be compared and is taken as it is.
bool Matches(const fs::path& path, const RemoteFile& file) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  if (file.digest.kind == ExpectedDigest::Kind::kNone) return true;
  if (fs::file_size(path, error) != file.size.value_or(0) || error) return false;
  FileDigest digest(file.digest.kind, *file.size);
  std::ifstream bytes(path, std::ios::binary);
  std::string piece(size_t{1} << 20, '\0');
  while (bytes.read(piece.data(), static_cast<std::streamsize>(piece.size())), bytes.gcount() > 0) {
    digest.Update({piece.data(), static_cast<size_t>(bytes.gcount())});
  }
  return digest.Finish() == file.digest.hex;
}

/// Whether the whole model is in its place.
bool IsThere(const fs::path& target, const RemoteModel& model) {
  return std::ranges::all_of(model.files, [&](const RemoteFile& file) {
    return Matches(model.is_folder ? target / file.name : target, file);
  });
}

Outcome<Done> CheckMagic(const fs::path& path, const RemoteFile& file) {
  if (!file.name.ends_with(".gguf")) return Done{};
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  if (std::memcmp(magic, "GGUF", sizeof magic) == 0) return Done{};
  std::error_code ignored;
  fs::remove(path, ignored);
  return Failure{file.url.Authority() + " has no model at this address: " + file.name +
                 " is no GGUF file. Its bytes are deleted."};
}

/// Bytes that are still to come, as far as the sizes are known.
uint64_t MissingBytes(const RemoteModel& model, const Staging& staging) {
  uint64_t missing = 0;
  for (const RemoteFile& file : model.files) {
    std::error_code error;
    const uint64_t here = fs::file_size(staging.Part(file.name), error);
    const uint64_t size = file.size.value_or(0);
    missing += error ? size : size - std::min(size, here);
  }
  return missing;
}

/// A folder is replaced only if it is an older version of the same kind of model.
bool HoldsOtherModels(const fs::path& folder, const RemoteModel& model) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const auto same_name = [&](const RemoteFile& file) { return file.name == entry->path().filename(); };
    const bool is_weight = entry->path().extension() == ".gguf" || entry->is_directory();
    if (is_weight && std::ranges::none_of(model.files, same_name)) return true;
  }
  return false;
}

/// Puts the files in their place with one rename.
Outcome<Done> Place(const Staging& staging, const fs::path& target, const RemoteModel& model) {
  const fs::path from = model.is_folder ? staging.Files() : staging.File(model.files.front().name);
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  const bool replaces_folder = model.is_folder && fs::is_directory(target, error);
  if (replaces_folder && HoldsOtherModels(target, model)) {
    return Failure{"The folder " + target.string() + " holds other models; move them away and pull again."};
  }
  const int failed =
      ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, target.c_str(), replaces_folder ? RENAME_EXCHANGE : 0);
  if (failed != 0) return CannotUse(target, std::error_code(errno, std::generic_category()));
  SyncFolder(target.parent_path());
  return Done{};
}

}  // namespace

Outcome<std::string> DownloadModel(const std::string& folder, const RemoteModel& model, const DownloadOptions& options,
                                   ProgressLine& progress) {
  const fs::path target = fs::path(folder) / model.target;
  const std::string path = (fs::path(folder) / model.LoadPath()).string();
  if (IsThere(target, model)) return path;
  Staging staging(folder, model.target);
  Outcome<Done> done = staging.Open();
  if (done) done = CheckSpace(folder, MissingBytes(model, staging));
  const DownloadOrigin origin{model.name, model.is_on_hub};
  for (const RemoteFile& file : model.files) {
    const fs::path part = staging.Part(file.name);
    if (done) done = DownloadFile(file, origin, part.string(), options, progress);
    if (done) done = CheckMagic(part, file);
  }
  if (done) done = staging.NameFiles(model.files);
  if (done) done = Place(staging, target, model);
  if (!done) return done.failure();
  staging.Remove();
  return path;
}

}  // namespace ringside::client
