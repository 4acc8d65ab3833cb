// Who may talk to the server: keys, tickets, web origins and host names. Decided once for every HTTP request and before
// every upgrade. Immutable after it is made, but for the keys file and the tickets, which look after themselves; any
// thread.
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

/// True for "localhost" and for an address of the loopback network.
bool IsLoopbackHost(std::string_view host);

/// The subprotocol by which a browser, which cannot set headers, presents its key or ticket.
inline constexpr std::string_view kKeySubprotocol = "openai-insecure-api-key.";

struct AccessOptions {
  std::vector<std::string> api_keys;         // each a principal of its own, with every scope
  std::vector<std::string> allowed_origins;  // "https://host[:port]", or "*"
  std::string host = "127.0.0.1";            // the address listened on
  std::vector<std::string> allowed_hosts;    // names, without a port, or "*"
  const KeyTable* keys = nullptr;            // outlive the policy; null = there is no keys file
  TicketBox* tickets = nullptr;              // likewise; null = no tickets are taken
  bool tls = false;                          // pages of this server have https origins
};

/// What of a request decides about access.
struct AccessRequest {
  std::string_view host, origin, authorization, subprotocols;
  bool has_origin = false;
  bool upgrade = false;      // subprotocols and tickets count only here
  bool probe = false;        // of a health check's path
  std::string_view api_key;  // x-api-key, in which Anthropic's clients present their keys
  std::string_view ticket;   // of the query
  std::string_view fetch_site,
      fetch_mode;  // Sec-Fetch-Site and -Mode, by which browsers say where a request comes from
};

/// True if the request presents any key or ticket, good or not.
bool ShowsKey(const AccessRequest& request);

class AccessPolicy {
 public:
  explicit AccessPolicy(const AccessOptions& options);

  /// Where the request came from. The Host header must be an address, or a name of this machine or one that is allowed
  /// (a page of another site may have its own name resolved to this server): else kInvalidArgument,
  /// misdirected_request. An Origin header must be the server's own origin or an allowed one: else kInvalidArgument,
  /// origin_not_allowed. No Origin is no browser, or one that loads what it may not read; the latter is refused, too.
  /// A health check that no browser sends may name any host: load balancers name none, or what their operator likes.
  Status CheckSource(const AccessRequest& request) const;
  /// Who asks: the owner of the key presented; where no keys are configured everyone is the same, "". kInvalidArgument,
  /// invalid_api_key, for a wrong, expired or missing key; conflicting_credentials for two different ones. Takes the
  /// same time for every wrong key. A ticket is used up; it is good for as long as the key that it was issued for.
  Result<Identity> Authenticate(const AccessRequest& request) const;
  /// False once the key that a request was admitted with is revoked, has expired or lost a scope.
  bool IsGood(const Identity& identity) const { return identity.key_id.empty() || keys_file_->IsGood(identity); }
  /// True if `origin` is no own origin but an allowed one: the answer then needs CORS headers.
  bool IsForeignAllowed(std::string_view origin, std::string_view host) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Key {
    Digest digest;
    std::string principal;
  };
  bool IsAllowedHost(std::string_view host) const;
  /// True for an origin of this server under the name `host`.
  bool IsOwnOrigin(std::string_view origin, std::string_view host) const;
  bool IsAllowedOrigin(std::string_view origin) const;

  std::vector<Key> keys_;
  const KeyTable* keys_file_;
  TicketBox* tickets_;
  std::vector<std::string> allowed_origins_;
  std::set<std::string, std::less<>> allowed_hosts_;
  bool any_origin_ = false, any_host_ = false;
  bool tls_ = false;
  bool loopback_ = false;  // nobody but this machine can reach the server, under this machine's names
};

/// Which of the offered subprotocols the answer names: one of the faces' own, else the key's (a browser gives up if
/// none of its offers is taken); "" if nothing was offered that is known.
std::string SelectSubprotocol(std::string_view offered);

}  // namespace ringside
