// An absolute http or https URL, and the target of a redirect. Pure. THREAD: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "clients/wire/outcome.h"
#include "clients/wire/transport/server_url.h"

namespace ringside::client {

struct WebUrl {
  bool tls = true;
  std::string host;  // without brackets, also for IPv6
  uint16_t port = 443;
  std::string target = "/";  // path and query, percent-encoded

  /// "example.org" or "127.0.0.1:8080".
  std::string Authority() const;
  std::string ToString() const { return (tls ? "https://" : "http://") + Authority() + target; }
  bool SameOrigin(const WebUrl& other) const { return tls == other.tls && host == other.host && port == other.port; }
  bool IsLoopback() const;
  /// Its last path component, decoded; "" if there is none.
  std::string FileName() const;
};

/// Fails for another scheme, user information, and characters that a URL must not contain.
Outcome<WebUrl> ParseWebUrl(std::string_view text);

/// The URL that a Location header names. Fails if it leaves https or is no URL.
Outcome<WebUrl> FollowLocation(const WebUrl& from, std::string_view location);

/// Percent-encodes a path; slashes remain.
std::string EncodePath(std::string_view path);

/// True for the name of a file in a folder: no separator, no control character, not hidden, of a reasonable length.
bool IsPlainFileName(std::string_view name);

}  // namespace ringside::client
