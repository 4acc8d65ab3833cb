#include "tests/durability/fault_file_system.h"

#include <rocksdb/system_clock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ringside {
namespace {

namespace fs = std::filesystem;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using Debug = rocksdb::IODebugContext;

std::string Folder(const std::string& name) { return fs::path(name).parent_path().string(); }

class WritableFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WritableFile(std::unique_ptr<rocksdb::FSWritableFile> file, std::string name, uint64_t size, FaultFileSystem* owner)
      : FSWritableFileOwnerWrapper(std::move(file)), name_(std::move(name)), size_(size), owner_(owner) {}

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, Debug* debug) override {
    const IOStatus fault = owner_->Call();
    const rocksdb::Slice written(data.data(), fault.ok() ? data.size() : data.size() / 2);
    const IOStatus status = target()->Append(written, options, debug);
    if (status.ok()) owner_->Wrote(name_, size_ += written.size());
    return fault.ok() ? status : fault;
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                  Debug* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Sync(const IOOptions& options, Debug* debug) override {
    const IOStatus fault = owner_->Call();
    if (!fault.ok()) return fault;
    // The bytes have reached the operating system: that counts as synced while the process lives.
    const IOStatus status = target()->Flush(options, debug);
    if (status.ok()) owner_->Synced(name_);
    return status;
  }
  IOStatus Fsync(const IOOptions& options, Debug* debug) override { return Sync(options, debug); }
  // Preallocated space is released when a file is closed, and dominates the run time on an in-memory file system.
  void PrepareWrite(size_t, size_t, const IOOptions&, Debug*) override {}
  IOStatus Allocate(uint64_t, uint64_t, const IOOptions&, Debug*) override { return IOStatus::OK(); }
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, Debug*) override { return IOStatus::OK(); }
  IOStatus Flush(const IOOptions& options, Debug* debug) override { return target()->Flush(options, debug); }
  IOStatus Close(const IOOptions& options, Debug* debug) override {
    const IOStatus fault = owner_->Call();
    const IOStatus status = target()->Close(options, debug);
    return fault.ok() ? status : fault;
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, Debug* debug) override {
    const IOStatus fault = owner_->Call();
    if (!fault.ok()) return fault;
    owner_->Wrote(name_, size_ = size);
    return target()->Truncate(size, options, debug);
  }

 private:
  const std::string name_;
  uint64_t size_;
  FaultFileSystem* const owner_;
};

class SequentialFile final : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  SequentialFile(std::unique_ptr<rocksdb::FSSequentialFile> file, FaultFileSystem* owner)
      : FSSequentialFileOwnerWrapper(std::move(file)), owner_(owner) {}
  IOStatus Read(size_t n, const IOOptions& options, rocksdb::Slice* result, char* scratch, Debug* debug) override {
    const IOStatus fault = owner_->Call();
    return fault.ok() ? target()->Read(n, options, result, scratch, debug) : fault;
  }

 private:
  FaultFileSystem* const owner_;
};

class RandomAccessFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  RandomAccessFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, const std::string& name, FaultFileSystem* owner)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), draft_(Folder(name).ends_with("/kv.new")), owner_(owner) {}
  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, rocksdb::Slice* result, char* scratch,
                Debug* debug) const override {
    const IOStatus fault = draft_ ? IOStatus::OK() : owner_->Call();
    return fault.ok() ? target()->Read(offset, n, options, result, scratch, debug) : fault;
  }
  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const IOOptions& options, Debug* debug) override {
    for (size_t i = 0; i < count; ++i) {
      requests[i].status =
          Read(requests[i].offset, requests[i].len, options, &requests[i].result, requests[i].scratch, debug);
    }
    return IOStatus::OK();
  }

 private:
  const bool draft_;
  FaultFileSystem* const owner_;
};

class Directory final : public rocksdb::FSDirectoryWrapper {
 public:
  Directory(std::unique_ptr<rocksdb::FSDirectory> dir, std::string name, FaultFileSystem* owner)
      : FSDirectoryWrapper(std::move(dir)), name_(std::move(name)), owner_(owner) {}
  IOStatus Fsync(const IOOptions&, Debug*) override {
    const IOStatus fault = owner_->Call();
    if (fault.ok()) owner_->SyncedFolder(name_);
    return fault;
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, Debug* debug, const rocksdb::DirFsyncOptions&) override {
    return Fsync(options, debug);
  }

 private:
  const std::string name_;
  FaultFileSystem* const owner_;
};

/// RocksDB sleeps for a second after a background failure; here nothing else needs the processor.
class ImpatientClock final : public rocksdb::SystemClockWrapper {
 public:
  ImpatientClock() : SystemClockWrapper(rocksdb::SystemClock::Default()) {}
  const char* Name() const override { return "ImpatientClock"; }
  void SleepForMicroseconds(int micros) override { SystemClockWrapper::SleepForMicroseconds(std::min(micros, 100)); }
};

class FaultEnv final : public rocksdb::EnvWrapper {
 public:
  explicit FaultEnv(const std::shared_ptr<FaultFileSystem>& files) : EnvWrapper(rocksdb::NewCompositeEnv(files)) {
    system_clock_ = std::make_shared<ImpatientClock>();
  }
};

std::string Normal(const std::string& name) {
  std::string out = fs::path(name).lexically_normal().string();
  if (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

}  // namespace

std::unique_ptr<rocksdb::Env> MakeFaultEnv(const std::shared_ptr<FaultFileSystem>& files) {
  return std::make_unique<FaultEnv>(files);
}

void FaultFileSystem::FailAt(uint64_t k, bool for_good) {
  std::lock_guard lock(mutex_);
  calls_ = syncs_ = 0;
  fail_at_ = k;
  for_good_ = for_good;
  failed_ = false;
}
uint64_t FaultFileSystem::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}
uint64_t FaultFileSystem::syncs() const {
  std::lock_guard lock(mutex_);
  return syncs_;
}
bool FaultFileSystem::failed() const {
  std::lock_guard lock(mutex_);
  return failed_;
}
void FaultFileSystem::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
}
void FaultFileSystem::SetFreeSpace(std::optional<uint64_t> bytes) {
  std::lock_guard lock(mutex_);
  free_space_ = bytes;
}

IOStatus FaultFileSystem::Call() {
  std::lock_guard lock(mutex_);
  ++calls_;
  if (stopped_) return IOStatus::IOError("the machine is off");
  const bool fails = fail_at_ != 0 && (for_good_ ? calls_ >= fail_at_ : calls_ == fail_at_);
  if (!fails) return IOStatus::OK();
  failed_ = true;
  return IOStatus::IOError("injected");
}

void FaultFileSystem::Made(const std::string& name, uint64_t size, bool is_new) {
  std::lock_guard lock(mutex_);
  files_[name] = {size, is_new ? 0 : size};
  if (is_new) new_names_[Folder(name)].insert(name);
}
void FaultFileSystem::Wrote(const std::string& name, uint64_t size) {
  std::lock_guard lock(mutex_);
  File& file = files_[name];
  file.size = size;
  file.synced = std::min(file.synced, size);
}
void FaultFileSystem::Synced(const std::string& name) {
  std::lock_guard lock(mutex_);
  ++syncs_;
  files_[name].synced = files_[name].size;
}
void FaultFileSystem::SyncedFolder(const std::string& name) {
  std::lock_guard lock(mutex_);
  ++syncs_;
  new_names_.erase(name);
  std::erase_if(replaced_, [&](const auto& entry) { return Folder(entry.first) == name; });
}

void FaultFileSystem::LosePower(std::mt19937& random) {
  std::lock_guard lock(mutex_);
  for (const auto& [name, file] : files_) {
    if (file.size <= file.synced || !fs::exists(name)) continue;
    const uint64_t kept = file.synced + random() % (file.size - file.synced + 1);
    fs::resize_file(name, kept);
    // Half of the time the last sector is torn: its unwritten part reads as zeros.
    constexpr uint64_t kSector = 512;
    if (random() % 2 == 0) fs::resize_file(name, std::min(file.size, (kept + kSector - 1) / kSector * kSector));
  }
  for (const auto& [folder, names] : new_names_) {
    for (const std::string& name : names) fs::remove(name);
  }
  for (const auto& [name, content] : replaced_) {
    if (content) std::ofstream(name, std::ios::binary) << *content;
  }
  files_.clear();
  new_names_.clear();
  replaced_.clear();
  stopped_ = failed_ = false;
  fail_at_ = 0;
}

IOStatus FaultFileSystem::NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                                            std::unique_ptr<rocksdb::FSSequentialFile>* file, Debug* debug) {
  if (const IOStatus fault = Call(); !fault.ok()) return fault;
  const IOStatus status = target()->NewSequentialFile(name, options, file, debug);
  if (status.ok()) *file = std::make_unique<SequentialFile>(std::move(*file), this);
  return status;
}

IOStatus FaultFileSystem::NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                                              std::unique_ptr<rocksdb::FSRandomAccessFile>* file, Debug* debug) {
  if (const IOStatus fault = Call(); !fault.ok()) return fault;
  const IOStatus status = target()->NewRandomAccessFile(name, options, file, debug);
  if (status.ok()) *file = std::make_unique<RandomAccessFile>(std::move(*file), Normal(name), this);
  return status;
}

IOStatus FaultFileSystem::NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                          std::unique_ptr<rocksdb::FSWritableFile>* file, Debug* debug) {
  if (const IOStatus fault = Call(); !fault.ok()) return fault;
  const IOStatus status = target()->NewWritableFile(name, options, file, debug);
  if (!status.ok()) return status;
  Made(Normal(name), 0, true);
  *file = std::make_unique<WritableFile>(std::move(*file), Normal(name), 0, this);
  return status;
}

IOStatus FaultFileSystem::ReopenWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                             std::unique_ptr<rocksdb::FSWritableFile>* file, Debug* debug) {
  if (const IOStatus fault = Call(); !fault.ok()) return fault;
  const bool is_new = !fs::exists(name);
  const uint64_t size = is_new ? 0 : fs::file_size(name);
  const IOStatus status = target()->ReopenWritableFile(name, options, file, debug);
  if (!status.ok()) return status;
  Made(Normal(name), size, is_new);
  *file = std::make_unique<WritableFile>(std::move(*file), Normal(name), size, this);
  return status;
}

// Our options never recycle a log file.
IOStatus FaultFileSystem::ReuseWritableFile(const std::string&, const std::string&, const rocksdb::FileOptions&,
                                            std::unique_ptr<rocksdb::FSWritableFile>*, Debug*) {
  return IOStatus::NotSupported("a reused file");
}

IOStatus FaultFileSystem::NewDirectory(const std::string& name, const IOOptions& options,
                                       std::unique_ptr<rocksdb::FSDirectory>* dir, Debug* debug) {
  if (const IOStatus fault = Call(); !fault.ok()) return fault;
  const IOStatus status = target()->NewDirectory(name, options, dir, debug);
  if (status.ok()) *dir = std::make_unique<Directory>(std::move(*dir), Normal(name), this);
  return status;
}

IOStatus FaultFileSystem::RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                                     Debug* debug) {
  if (const IOStatus fault = Call(); !fault.ok()) return fault;
  const std::string source = Normal(from), target_name = Normal(to);
  std::optional<std::string> old;
  if (fs::is_regular_file(target_name)) {
    std::ostringstream bytes;
    bytes << std::ifstream(target_name, std::ios::binary).rdbuf();
    old = bytes.str();
  }
  const IOStatus status = target()->RenameFile(from, to, options, debug);
  if (!status.ok()) return status;
  std::lock_guard lock(mutex_);
  if (fs::is_directory(target_name)) {  // the caller of a folder rename syncs the parent itself
    std::map<std::string, File> moved;
    for (const auto& [name, file] : files_) {
      const bool inside = name.starts_with(source + "/");
      moved[inside ? target_name + name.substr(source.size()) : name] = file;
    }
    files_ = std::move(moved);
    new_names_.erase(source);
    return status;
  }
  files_[target_name] = files_[source];
  files_.erase(source);
  auto& names = new_names_[Folder(target_name)];
  names.erase(source);
  if (old) {
    replaced_.try_emplace(target_name, std::move(old));
  } else {
    names.insert(target_name);
  }
  return status;
}

IOStatus FaultFileSystem::LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                                   Debug* debug) {
  if (const IOStatus fault = Call(); !fault.ok()) return fault;
  const IOStatus status = target()->LinkFile(from, to, options, debug);
  if (!status.ok()) return status;
  std::lock_guard lock(mutex_);
  files_[Normal(to)] = files_[Normal(from)];
  new_names_[Folder(Normal(to))].insert(Normal(to));
  return status;
}

IOStatus FaultFileSystem::DeleteFile(const std::string& name, const IOOptions& options, Debug* debug) {
  if (const IOStatus fault = Call(); !fault.ok()) return fault;
  const IOStatus status = target()->DeleteFile(name, options, debug);
  std::lock_guard lock(mutex_);
  files_.erase(Normal(name));
  new_names_[Folder(Normal(name))].erase(Normal(name));
  return status;
}

IOStatus FaultFileSystem::CreateDir(const std::string& name, const IOOptions& options, Debug* debug) {
  const IOStatus fault = Call();
  return fault.ok() ? target()->CreateDir(name, options, debug) : fault;
}
IOStatus FaultFileSystem::CreateDirIfMissing(const std::string& name, const IOOptions& options, Debug* debug) {
  const IOStatus fault = Call();
  return fault.ok() ? target()->CreateDirIfMissing(name, options, debug) : fault;
}
IOStatus FaultFileSystem::GetChildren(const std::string& name, const IOOptions& options, std::vector<std::string>* out,
                                      Debug* debug) {
  const IOStatus fault = Call();
  return fault.ok() ? target()->GetChildren(name, options, out, debug) : fault;
}
IOStatus FaultFileSystem::GetFreeSpace(const std::string& path, const IOOptions& options, uint64_t* bytes,
                                       Debug* debug) {
  {
    std::lock_guard lock(mutex_);
    if (free_space_) {
      *bytes = *free_space_;
      return IOStatus::OK();
    }
  }
  return target()->GetFreeSpace(path, options, bytes, debug);
}

}  // namespace ringside
