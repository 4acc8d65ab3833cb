// Where a server is: host, port and base path, from what users write. A plain value, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "clients/wire/outcome.h"

namespace ringside::client {

struct ServerUrl {
  std::string host = "127.0.0.1";  // without brackets, also for IPv6
  uint16_t port = 8080;
  std::string base_path = "/v1";  // begins with a slash, ends without
  bool tls = false;
  std::string ca_file;    // of the authorities that a certificate may come from, in PEM; "" = the machine's
  bool insecure = false;  // takes any certificate

  /// "host:port" as the Host header wants it.
  std::string Authority() const;
  /// `path` ("/conversations") below the base path.
  std::string Target(std::string_view path) const { return base_path + std::string(path); }
};

/// Reads "ws://host:port", "http://host:port", "host:port" or "host", each with or without "/v1" and "/v1/responses";
/// wss:// and https:// mean TLS. Fails for another scheme and for a bad port.
Outcome<ServerUrl> ParseServerUrl(std::string_view text);

}  // namespace ringside::client
