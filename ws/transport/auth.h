// Access control: keys, tickets, web origins and host names. Decides once per HTTP request and before every upgrade.
// THREAD: any. Immutable after construction, except for the keys file and the tickets, which synchronize themselves.
#pragma once

#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ws/access/key_table.h"
#include "ws/access/tickets.h"

namespace ringside {

/// True for "localhost" and for loopback addresses.
bool IsLoopbackHost(std::string_view host);

/// Subprotocol in which a browser, which cannot set headers, presents its key or ticket.
inline constexpr std::string_view kKeySubprotocol = "openai-insecure-api-key.";

struct AccessOptions {
  std::vector<std::string> api_keys;         // each a principal with every scope
  std::vector<std::string> allowed_origins;  // "https://host[:port]", or "*"
  std::string host = "127.0.0.1";            // listening address
  std::vector<std::string> allowed_hosts;    // names without a port, or "*"
  const KeyTable* keys = nullptr;            // outlives the policy; null = no keys file
  TicketBox* tickets = nullptr;              // outlives the policy; null = tickets are refused
  bool tls = false;                          // this server's pages have https origins
};

/// The parts of a request that decide its access.
struct AccessRequest {
  std::string_view host, origin, authorization, subprotocols;
  bool has_origin = false;
  bool upgrade = false;      // subprotocols and tickets count only for upgrades
  bool probe = false;        // path of a health check
  std::string_view api_key;  // x-api-key, the header of Anthropic's clients
  std::string_view ticket;   // from the query
  std::string_view fetch_site,
      fetch_mode;  // Sec-Fetch-Site and Sec-Fetch-Mode: the browser's statement of where the request comes from
};

/// True if the request presents any key or ticket, valid or not.
bool ShowsKey(const AccessRequest& request);

class AccessPolicy {
 public:
  explicit AccessPolicy(const AccessOptions& options);

  /// Checks where the request came from. The Host header must be an address, a name of this machine or an allowed name:
  /// another site may resolve its own name to this server (DNS rebinding). An Origin header must be the server's own
  /// origin or an allowed one. A request without Origin comes from another program, or from a page that embeds a
  /// resource; the latter is refused. A health check that no browser sent may name any host, because load balancers
  /// send none or an arbitrary one.
  /// ERRORS: kInvalidArgument: misdirected_request (Host), origin_not_allowed (Origin).
  Status CheckSource(const AccessRequest& request) const;
  /// Returns the owner of the presented key; "" for every client where no keys are configured. Takes the same time for
  /// every wrong key. Consumes a ticket, which is valid as long as the key that it was issued for.
  /// ERRORS: kInvalidArgument: invalid_api_key for a wrong, expired or missing key, conflicting_credentials for two
  /// different ones.
  Result<Identity> Authenticate(const AccessRequest& request) const;
  /// False once the key that admitted a request is revoked, has expired or has lost a scope.
  bool IsGood(const Identity& identity) const { return identity.key_id.empty() || keys_file_->IsGood(identity); }
  /// True if `origin` is an allowed foreign origin: the response then needs CORS headers.
  bool IsForeignAllowed(std::string_view origin, std::string_view host) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Key {
    Digest digest;
    std::string principal;
  };
  bool IsAllowedHost(std::string_view host) const;
  /// True if `origin` is this server's under the name `host`.
  bool IsOwnOrigin(std::string_view origin, std::string_view host) const;
  bool IsAllowedOrigin(std::string_view origin) const;

  std::vector<Key> keys_;
  const KeyTable* keys_file_;
  TicketBox* tickets_;
  std::vector<std::string> allowed_origins_;
  std::set<std::string, std::less<>> allowed_hosts_;
  bool any_origin_ = false, any_host_ = false;
  bool tls_ = false;
  bool loopback_ = false;  // only this machine can reach the server, under its loopback names
};

/// Selects the subprotocol that the response names: one of the faces' if offered, otherwise the key's, because a
/// browser closes the socket if the server accepts none of its offers; "" if none of the offered ones is known.
std::string SelectSubprotocol(std::string_view offered);

}  // namespace ringside
