// Who may talk to the server: keys, web origins and host names. Decided once for every HTTP request and before every
// upgrade. Immutable after it is made; any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ringside {

/// True for "localhost" and for an address of the loopback network.
bool IsLoopbackHost(std::string_view host);

/// The subprotocol by which a browser, which cannot set headers, presents its key.
inline constexpr std::string_view kKeySubprotocol = "openai-insecure-api-key.";

struct AccessOptions {
  std::vector<std::string> api_keys;         // none = everyone is the same principal, ""
  std::vector<std::string> allowed_origins;  // "https://host[:port]", or "*"
  std::string host = "127.0.0.1";            // the address listened on
};

/// What of a request decides about access.
struct AccessRequest {
  std::string_view host, origin, authorization, subprotocols;
  bool has_origin = false;
  bool upgrade = false;  // subprotocols count only here
};

class AccessPolicy {
 public:
  explicit AccessPolicy(const AccessOptions& options);

  /// Where the request came from. On a loopback address the Host header must be a name of this machine (a page of
  /// another site may have its own name resolved to 127.0.0.1): else kInvalidArgument, misdirected_request. An Origin
  /// header must be the server's own origin or an allowed one: else kInvalidArgument, origin_not_allowed. No Origin is
  /// no browser and passes.
  Status CheckSource(const AccessRequest& request) const;
  /// The principal: a digest of the key presented, "" where no key is configured. kInvalidArgument, invalid_api_key,
  /// for a wrong or missing key. Takes the same time for every wrong key.
  Result<std::string> Authenticate(const AccessRequest& request) const;
  /// True if `origin` is no own origin but an allowed one: the answer then needs CORS headers.
  bool IsForeignAllowed(std::string_view origin, std::string_view host) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Key {
    Digest digest;
    std::string principal;
  };
  bool IsAllowedOrigin(std::string_view origin) const;

  std::vector<Key> keys_;
  std::vector<std::string> allowed_origins_;
  std::string own_host_;
  bool any_origin_ = false;
  bool check_host_ = false;
};

/// Which of the offered subprotocols the answer names: one of the faces' own, else the key's (a browser gives up if
/// none of its offers is taken); "" if nothing was offered that is known.
std::string SelectSubprotocol(std::string_view offered);

}  // namespace ringside
