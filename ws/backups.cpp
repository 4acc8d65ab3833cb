#include "ws/backups.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>

#include "base/log.h"
#include "base/worker_pool.h"
#include "ws/json/json_writer.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "backup-", kDraft = ".being-made";

/// "backup-2026-11-24T10-20-30.123Z": names sort by time.
std::string NameNow() {
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const int64_t ms = now.time_since_epoch().count();
  return fmt::format("{}{:%Y-%m-%dT%H-%M-%S}.{:03}Z", kPrefix, fmt::gmtime(static_cast<std::time_t>(ms / 1000)),
                     ms % 1000);
}

bool IsBackup(const fs::path& path) { return path.filename().string().starts_with(kPrefix); }

Status Failed(std::string_view what, const std::error_code& error) {
  return IoError(fmt::format("backup: {}: {}", what, error.message()));
}

}  // namespace

Backups::Backups(const ServerConfig& config, Journal& journal)
    : path_(config.backup_path),
      export_key_(config.export_key_file.empty() ? config.store_path + "/export.key" : ""),
      journal_(journal) {}

Result<std::unique_ptr<Backups>> Backups::Open(const ServerConfig& config, Journal& journal) {
  std::error_code error;
  fs::create_directories(config.backup_path, error);
  if (error) {
    return InvalidArgument("--backup-path: \"" + config.backup_path + "\" cannot be made: " + error.message());
  }
  std::unique_ptr<Backups> backups(new Backups(config, journal));
  for (const auto& entry : fs::directory_iterator(config.backup_path, error)) {
    struct stat status {};
    if (!IsBackup(entry.path()) || stat(entry.path().c_str(), &status) != 0) continue;
    backups->last_made_at_ = std::max(backups->last_made_at(), static_cast<double>(status.st_mtime));
  }
  if (error) return InvalidArgument("--backup-path: \"" + config.backup_path + "\" cannot be read: " + error.message());
  return backups;
}

Status Backups::Fill(const std::string& folder) const {
  std::error_code error;
  fs::remove_all(folder, error);  // left by a crashed server
  if (!error) fs::create_directory(folder, error);
  if (error) return Failed(folder, error);
  RETURN_IF_ERROR(journal_.Backup(folder));
  if (!export_key_.empty()) fs::copy_file(export_key_, folder + "/export.key", error);
  return error ? Failed(export_key_, error) : Status::Ok();
}

Result<Backup> Backups::Make() {
  ASSIGN_OR_RETURN(const DiskWait wait, DiskWait::Begin());
  const std::unique_lock one(making_, std::try_to_lock);
  if (!one) return Status(StatusCode::kBusy, "A backup is being made.");
  std::error_code error;
  const auto kept = std::count_if(fs::directory_iterator(path_, error), fs::directory_iterator(),
                                  [](const auto& entry) { return IsBackup(entry.path()); });
  if (error) return Failed(path_, error);
  if (static_cast<size_t>(kept) >= kMaxKept) {
    return Status(StatusCode::kMismatch, fmt::format("There are {} backups already: delete one first.", kept), "",
                  "too_many_backups");
  }
  const std::string draft = path_ + "/" + std::string(kDraft);
  Backup backup{.name = NameNow(), .conversations = journal_.stats().sessions};
  if (Status filled = Fill(draft); !filled.ok()) {
    fs::remove_all(draft, error);
    return filled;
  }
  for (const auto& file : fs::recursive_directory_iterator(draft, error)) {
    if (file.is_regular_file(error)) backup.bytes += static_cast<int64_t>(file.file_size(error));
  }
  fs::rename(draft, path_ + "/" + backup.name, error);
  if (error) return Failed(draft, error);
  last_made_at_ = static_cast<double>(std::time(nullptr));
  LogInfo("backup: {} is made, {:.1f} MiB of {} conversations and chains", backup.name,
          static_cast<double>(backup.bytes) / (1 << 20), backup.conversations);
  return backup;
}

void AddBackupRoute(Router& router, Backups* backups) {
  router.Add(
      "POST", "/v1/store/backup",
      [backups](const HttpRequest&, const Router::Parameters&) {
        if (backups == nullptr) {
          return ErrorResponse(NotFound("This server makes no backups: it has no --backup-path.", "", "no_backups"));
        }
        const Result<Backup> made = backups->Make();
        if (!made.ok()) return ErrorResponse(made.status());
        JsonWriter json;
        json.BeginObject().Field("object", "ringside.backup").Field("name", made->name);
        json.Field("bytes", made->bytes).Field("conversations", made->conversations).EndObject();
        HttpResponse response;
        response.body = json.Take();
        return response;
      },
      Scopes::Admin());
}

}  // namespace ringside
