// Copies of the store that are made while the server runs: POST /v1/store/backup, for keys with the scope admin. Owned
// by the App, after the storage; any thread.
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
  std::string name;           // of its folder, below --backup-path
  int64_t bytes = 0;          // of its files, those included that it shares with the store
  int64_t conversations = 0;  // and chains
};

class Backups {
 public:
  /// More are not made before some are taken away: they keep alive on the disk what the store has given up.
  static constexpr size_t kMaxKept = 64;

  /// Makes the folder `config.backup_path`. kInvalidArgument, naming the setting. `journal` outlives it.
  static Result<std::unique_ptr<Backups>> Open(const ServerConfig& config, Journal& journal);

  /// Makes one: a folder that a server takes as its --store-path, with everything that was acknowledged before the
  /// call. kBusy: another is being made. kMismatch: there are kMaxKept. kUnavailable: storage_full. kIo. Blocks, up to
  /// seconds.
  Result<Backup> Make();
  /// Seconds since 1970; 0 = there is none.
  double last_made_at() const { return last_made_at_; }

 private:
  Backups(const ServerConfig& config, Journal& journal);
  Status Fill(const std::string& folder) const;

  const std::string path_;
  const std::string export_key_;  // the file in the store; "" = it is elsewhere
  Journal& journal_;
  std::mutex making_;
  std::atomic<double> last_made_at_{0};
};

/// `backups` outlives the router; null = none are made, which is answered.
void AddBackupRoute(Router& router, Backups* backups);

}  // namespace ringside
