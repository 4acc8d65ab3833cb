// A file system whose calls fail on demand and whose machine can lose power, which discards all unsynced file contents,
// new names and renames. For tests of RocksDB's durability under our options. THREAD: any.
//
// One call never fails: reading a draft that the disk tier is about to ingest. RocksDB 7.8 reads its first and last key
// without checking for errors (ExternalSstFileIngestionJob::GetIngestedFileInfo), and aborts or ingests the file with a
// wrong range. The file has just been written and synced, so its bytes are still in memory.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>

namespace ringside {

class FaultFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  FaultFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "FaultFileSystem"; }

  /// Starts counting calls; the k-th (from 1) fails, and with `for_good` all later ones. A failing write leaves half of
  /// its bytes.
  void FailAt(uint64_t k, bool for_good);
  void FailNever() { FailAt(0, false); }
  /// Calls since the last FailAt.
  uint64_t calls() const;
  /// Files and folders synced since the last FailAt.
  uint64_t syncs() const;
  /// True if a call has failed since the last FailAt.
  bool failed() const;

  /// Stops the machine: every call fails until LosePower.
  void Stop();
  /// Discards unsynced data, except for a random part of each file's unsynced end, and clears failures. REQUIRES: all
  /// files are closed.
  void LosePower(std::mt19937& random);

  /// Overrides GetFreeSpace; nullopt = the real value.
  void SetFreeSpace(std::optional<uint64_t> bytes);

  using IOOptions = rocksdb::IOOptions;
  using IOStatus = rocksdb::IOStatus;
  using Debug = rocksdb::IODebugContext;
  IOStatus NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* file, Debug* debug) override;
  IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* file, Debug* debug) override;
  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file, Debug* debug) override;
  IOStatus ReopenWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* file, Debug* debug) override;
  IOStatus ReuseWritableFile(const std::string& name, const std::string& old_name, const rocksdb::FileOptions& options,
                             std::unique_ptr<rocksdb::FSWritableFile>* file, Debug* debug) override;
  IOStatus NewDirectory(const std::string& name, const IOOptions& options, std::unique_ptr<rocksdb::FSDirectory>* dir,
                        Debug* debug) override;
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options, Debug* debug) override;
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options, Debug* debug) override;
  IOStatus DeleteFile(const std::string& name, const IOOptions& options, Debug* debug) override;
  IOStatus CreateDir(const std::string& name, const IOOptions& options, Debug* debug) override;
  IOStatus CreateDirIfMissing(const std::string& name, const IOOptions& options, Debug* debug) override;
  IOStatus GetChildren(const std::string& name, const IOOptions& options, std::vector<std::string>* out,
                       Debug* debug) override;
  IOStatus GetFreeSpace(const std::string& path, const IOOptions& options, uint64_t* bytes, Debug* debug) override;

  /// Counts a call and returns its outcome, for the files opened through this file system.
  IOStatus Call();
  void Wrote(const std::string& name, uint64_t size);
  void Synced(const std::string& name);
  void SyncedFolder(const std::string& name);

 private:
  struct File {
    uint64_t size = 0, synced = 0;
  };
  void Made(const std::string& name, uint64_t size, bool is_new);

  mutable std::mutex mutex_;
  uint64_t calls_ = 0, syncs_ = 0, fail_at_ = 0;
  bool for_good_ = false, failed_ = false, stopped_ = false;
  std::optional<uint64_t> free_space_;
  std::map<std::string, File> files_;
  std::map<std::string, std::set<std::string>> new_names_;      // folder -> names not synced in it
  std::map<std::string, std::optional<std::string>> replaced_;  // target of a rename not synced -> old content
};

/// The machine's environment, except for these files and RocksDB's pauses.
std::unique_ptr<rocksdb::Env> MakeFaultEnv(const std::shared_ptr<FaultFileSystem>& files);

}  // namespace ringside
