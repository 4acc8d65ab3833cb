// URLs of images, and the hosts that an operator has listed for them (--allowed-image-hosts). Pure. THREAD: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ringside {

/// Scheme, host and port: two origins are the same or different, there are no patterns.
struct WebOrigin {
  bool tls = true;
  std::string host;  // lower case; an IPv6 address without brackets
  uint16_t port = 443;

  bool operator==(const WebOrigin&) const = default;
  /// "example.org", "example.org:8443" or "[::1]:80": the Host header.
  std::string Authority() const;
};

struct ImageUrl {
  WebOrigin origin;
  std::string target;  // path and query
};

/// Parses an entry of the list: HOST, HOST:PORT, or one of these after "https://" or "http://".
/// ERRORS: kInvalidArgument: anything else, such as a path, a user or a pattern.
Result<WebOrigin> ParseImageHost(std::string_view entry);
/// Parses an absolute URL. The fragment is dropped.
/// ERRORS: kInvalidArgument: another scheme, a user, or characters that a URL cannot have.
Result<ImageUrl> ParseImageUrl(std::string_view url);
/// Parses the Location of a redirect from `from`: absolute, or a path of the same origin.
/// ERRORS: as ParseImageUrl.
Result<ImageUrl> ParseRedirect(const ImageUrl& from, std::string_view location);

/// True for an address literal, not for a name.
bool IsAddressLiteral(std::string_view host);
/// True for a global unicast address of the public Internet. False for private, shared, loopback, link-local,
/// multicast, documentation and reserved addresses, and for IPv6 addresses that contain an IPv4 address which is not
/// public. REQUIRES: an address literal, without a zone.
bool IsPublicAddress(std::string_view address);

}  // namespace ringside
