// Copies of the store made while the server runs: POST /v1/store/backup, scope admin. Owned by the App, destroyed
// before the storage.
// THREAD: any.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "session/journal/journal.h"
#include "ws/config/config.h"
#include "ws/transport/http/http.h"

namespace ringside {

struct Backup {
  std::string name;           // folder name, below --backup-path
  int64_t bytes = 0;          // size of its files, including those shared with the store
  int64_t conversations = 0;  // and chains
};

class Backups {
 public:
  /// Limit of kept backups: each keeps files on disk that the store has released.
  static constexpr size_t kMaxKept = 64;

  /// Creates the folder `config.backup_path`.
  /// REQUIRES: `journal` outlives this object.
  /// ERRORS: kInvalidArgument, naming the setting.
  static Result<std::unique_ptr<Backups>> Open(const ServerConfig& config, Journal& journal);

  /// Creates a folder that works as a server's --store-path and contains everything acknowledged before the call.
  /// Blocks for up to seconds.
  /// ERRORS: kBusy while another is being made, kMismatch above kMaxKept, kUnavailable (storage_full), kIo.
  Result<Backup> Make();
  /// Seconds since 1970; 0 = no backup.
  double last_made_at() const { return last_made_at_; }

 private:
  Backups(const ServerConfig& config, Journal& journal);
  Status Fill(const std::string& folder) const;

  const std::string path_;
  const std::string export_key_;  // file in the store; "" = stored elsewhere
  Journal& journal_;
  std::mutex making_;
  std::atomic<double> last_made_at_{0};
};

/// `backups` outlives the router; null = the route answers that backups are not configured.
void AddBackupRoute(Router& router, Backups* backups);

}  // namespace ringside
