// Who may come in, as the process keeps it: keys, tickets and the certificate, read at the start and again when they
// change. Owned by the App, outlives its servers; reading is for the App's own thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "session/session_options.h"
#include "ws/access/key_table.h"
#include "ws/access/tickets.h"
#include "ws/config/config.h"
#include "ws/transport/server.h"
#include "ws/transport/tls.h"

namespace ringside {

class AppAccess {
 public:
  /// Reads what the settings name and says what is left open; kInvalidArgument, naming the setting.
  Status Open(const ServerConfig& config);
  /// Has a server let in who may come in.
  void Apply(const ServerConfig& config, ServerOptions& options);
  /// What an owner may use, by the keys file where it says so. Any thread.
  OwnerLimits LimitsOf(const std::string& owner, const OwnerLimits& usual) const;
  /// How many of `all` connections an owner may have: by the keys file, else `usual`, else half of them if there are
  /// several owners. Any thread.
  int64_t ConnectionsOf(const std::string& owner, int64_t all, std::optional<int64_t> usual) const;
  TicketBox& tickets() { return tickets_; }

  /// Takes over what has changed in the keys file.
  void Watch() { ReadKeys(/*anyway=*/false); }
  /// Reads keys and certificate again, because somebody asked for it. What cannot be used is logged and changes
  /// nothing.
  void Reload();

 private:
  void ReadKeys(bool anyway);

  size_t flag_owners_ = 0;          // each key of --api-key is one
  std::unique_ptr<KeyTable> keys_;  // null = there is no keys file
  TicketBox tickets_;
  std::unique_ptr<TlsCertificate> certificate_;  // null = plain HTTP
};

}  // namespace ringside
