// Credentials of the process: keys, tickets and the certificate, read at start and again when they change. Owned by the
// App, outlives its servers.
// THREAD: the App's, unless stated otherwise.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "session/session_options.h"
#include "ws/access/key_table.h"
#include "ws/access/tickets.h"
#include "ws/config/config.h"
#include "ws/transport/server.h"
#include "ws/transport/tls/tls.h"

namespace ringside {

class AppAccess {
 public:
  /// Reads the configured files and logs which accesses are open.
  /// ERRORS: kInvalidArgument, naming the setting.
  Status Open(const ServerConfig& config);
  /// Sets the credentials in the options of a server.
  void Apply(const ServerConfig& config, ServerOptions& options);
  /// The limits of `owner`: from the keys file if it sets them, otherwise `usual`.
  /// THREAD: any.
  OwnerLimits LimitsOf(const std::string& owner, const OwnerLimits& usual) const;
  /// Number of connections that `owner` may have: from the keys file, otherwise `usual`, otherwise half of `all` if
  /// there are several owners.
  /// THREAD: any.
  int64_t ConnectionsOf(const std::string& owner, int64_t all, std::optional<int64_t> usual) const;
  TicketBox& tickets() { return tickets_; }

  /// Applies changes of the keys file.
  void Watch() { ReadKeys(/*anyway=*/false); }
  /// Reads keys and certificate again on request. An unusable file is logged and changes nothing.
  void Reload();

 private:
  void ReadKeys(bool anyway);

  size_t flag_owners_ = 0;          // number of --api-key keys
  std::unique_ptr<KeyTable> keys_;  // null = no keys file
  TicketBox tickets_;
  std::unique_ptr<TlsCertificate> certificate_;  // null = plain HTTP
};

}  // namespace ringside
