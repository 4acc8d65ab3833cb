// A server's address: host, port and base path, parsed from user input. A plain value. THREAD: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "clients/wire/outcome.h"

namespace ringside::client {

struct ServerUrl {
  std::string host = "127.0.0.1";  // without brackets, also for IPv6
  uint16_t port = 8080;
  std::string base_path = "/v1";  // starts with a slash, has no trailing slash
  bool tls = false;
  std::string ca_file;    // PEM file of trusted authorities; "" = the system's
  bool insecure = false;  // accept any certificate

  /// "host:port" for the Host header.
  std::string Authority() const;
  /// `path` ("/conversations") below the base path.
  std::string Target(std::string_view path) const { return base_path + std::string(path); }
};

/// Parses "ws://host:port", "http://host:port", "host:port" or "host", each optionally followed by "/v1" or
/// "/v1/responses"; wss:// and https:// select TLS. Fails for any other scheme and for a bad port.
Outcome<ServerUrl> ParseServerUrl(std::string_view text);

}  // namespace ringside::client
