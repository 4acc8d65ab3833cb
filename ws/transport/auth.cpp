#include "ws/transport/auth.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/check.h"
#include "base/hex.h"
#include "ws/transport/ascii.h"

namespace ringside {
namespace {

std::array<unsigned char, 32> Sha256(std::string_view domain, std::string_view text) {
  const std::string joined = std::string(domain) + std::string(text);
  std::array<unsigned char, 32> digest{};
  unsigned int size = 0;
  CHECK(EVP_Digest(joined.data(), joined.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
  CHECK_EQ(size, digest.size());
  return digest;
}

/// The comparison digest and the principal use different domains, so that a stored principal reveals nothing about the
/// digest.
constexpr std::string_view kCompareDomain = "ringside key\n";
constexpr std::string_view kPrincipalDomain = "ringside principal\n";

std::string PrincipalOf(std::string_view key) {
  const auto digest = Sha256(kPrincipalDomain, key);
  return HexText({reinterpret_cast<const char*>(digest.data()), 16});
}

/// "localhost" for "localhost:8080"; "::1" for "[::1]:8080" and for "::1".
std::string_view HostName(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end == std::string_view::npos ? host : host.substr(1, end - 1);
  }
  const size_t colon = host.find(':');
  return host.find(':', colon + 1) != std::string_view::npos ? host : host.substr(0, colon);
}

/// "host:port" for "http://host:port"; "" for "null" and for anything that is not a web origin.
std::string_view OriginAuthority(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return origin.substr(scheme.size());
  }
  return {};
}

std::vector<std::string_view> SplitList(std::string_view list) {
  std::vector<std::string_view> items;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (const std::string_view item = TrimBlanks(list.substr(0, comma)); !item.empty()) items.push_back(item);
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return items;
}

/// Keys and tickets of a request, the effective one first: from a header or, before an upgrade, from the query or a
/// subprotocol. Credentials in places where they have no effect come last.
struct Presented {
  std::string_view key;  // "" = no effective key
  bool any = false, conflicting = false;
};
Presented PresentedKey(const AccessRequest& request) {
  constexpr std::string_view kBearer = "bearer";
  Presented presented;
  std::string_view first;
  const auto present = [&](std::string_view key, bool counts) {
    if (key.empty()) return;
    presented.conflicting = presented.conflicting || (presented.any && key != first);
    if (!std::exchange(presented.any, true)) first = key;
    if (counts && presented.key.empty()) presented.key = key;
  };
  const std::string_view header = TrimBlanks(request.authorization);
  const std::string_view scheme = header.substr(0, header.find(' '));
  const bool bearer = AsciiLower(scheme) == kBearer;
  present(bearer ? TrimBlanks(header.substr(scheme.size())) : header, bearer);
  present(TrimBlanks(request.api_key), true);
  // Only tickets are accepted in a URL, never keys.
  present(request.ticket, request.upgrade && TicketBox::IsTicket(request.ticket));
  for (const std::string_view item : SplitList(request.subprotocols)) {
    if (item.starts_with(kKeySubprotocol)) present(item.substr(kKeySubprotocol.size()), request.upgrade);
  }
  return presented;
}

bool IsAddress(std::string_view name) {
  in6_addr any{};
  const std::string text(name);
  return inet_pton(AF_INET, text.c_str(), &any) == 1 || inet_pton(AF_INET6, text.c_str(), &any) == 1;
}

}  // namespace

bool IsLoopbackHost(std::string_view host) {
  const std::string name = AsciiLower(HostName(host));
  if (name == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, name.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, name.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool ShowsKey(const AccessRequest& request) { return PresentedKey(request).any; }

AccessPolicy::AccessPolicy(const AccessOptions& options)
    : keys_file_(options.keys), tickets_(options.tickets), tls_(options.tls), loopback_(IsLoopbackHost(options.host)) {
  for (const std::string& key : options.api_keys) {
    keys_.push_back({Sha256(kCompareDomain, key), PrincipalOf(key)});
  }
  for (const std::string& origin : options.allowed_origins) {
    any_origin_ = any_origin_ || origin == "*";
    allowed_origins_.push_back(AsciiLower(origin));
    // An allowed origin's host may be a proxy in front of the server.
    allowed_hosts_.insert(std::string(HostName(OriginAuthority(allowed_origins_.back()))));
  }
  for (const std::string& host : options.allowed_hosts) {
    any_host_ = any_host_ || host == "*";
    allowed_hosts_.insert(AsciiLower(host));
  }
  any_host_ = any_host_ || any_origin_;  // with any origin allowed, the host check has no purpose
  allowed_hosts_.insert(AsciiLower(options.host));
  allowed_hosts_.erase("");
}

bool AccessPolicy::IsAllowedHost(std::string_view host) const {
  const std::string_view name = HostName(host);
  if (any_host_ || allowed_hosts_.contains(name) || IsLoopbackHost(name)) return true;
  // A literal IP address in Host cannot be DNS-rebound; only names must be on the allow list.
  return !loopback_ && IsAddress(name);
}

bool AccessPolicy::IsOwnOrigin(std::string_view origin, std::string_view host) const {
  const std::string lower = AsciiLower(origin);
  return lower.starts_with(tls_ ? "https://" : "http://") && !host.empty() &&
         OriginAuthority(lower) == AsciiLower(host);
}

bool AccessPolicy::IsAllowedOrigin(std::string_view origin) const {
  return any_origin_ ||
         std::find(allowed_origins_.begin(), allowed_origins_.end(), AsciiLower(origin)) != allowed_origins_.end();
}

Status AccessPolicy::CheckSource(const AccessRequest& request) const {
  const std::string host = AsciiLower(request.host);
  const bool from_browser = request.has_origin || !request.fetch_site.empty();
  if (!IsAllowedHost(host) && (!request.probe || from_browser)) {
    return InvalidArgument(
        "This server does not answer to the name in the Host header; the operator can allow it with --allowed-hosts.",
        "", "misdirected_request");
  }
  const Status refused =
      InvalidArgument("Pages of this origin may not use the server; the operator can allow it with --allowed-origins.",
                      "", "origin_not_allowed");
  if (!request.has_origin) {
    // A foreign page that embeds an image or a script of ours cannot read it, but it has caused a request. Following a
    // link is allowed.
    const bool foreign = request.fetch_site == "cross-site" || request.fetch_site == "same-site";
    return foreign && request.fetch_mode != "navigate" && !any_origin_ ? refused : Status::Ok();
  }
  if (IsOwnOrigin(request.origin, host)) return Status::Ok();
  return IsAllowedOrigin(request.origin) ? Status::Ok() : refused;
}

Result<Identity> AccessPolicy::Authenticate(const AccessRequest& request) const {
  const auto [presented, any, conflicting] = PresentedKey(request);
  const bool keyless = keys_.empty() && keys_file_ == nullptr;
  // A proxy may have acted on either credential.
  if (conflicting && !keyless) {
    return InvalidArgument("The request presents two different keys or tickets; present one.", "",
                           "conflicting_credentials");
  }
  if (tickets_ != nullptr && request.upgrade && TicketBox::IsTicket(presented)) {
    std::optional<Identity> identity = tickets_->Take(presented);
    if (identity && IsGood(*identity)) return std::move(*identity);
  }
  if (keyless) return Identity();
  if (keys_file_ != nullptr) {
    if (std::optional<Identity> identity = keys_file_->Find(presented)) return std::move(*identity);
  }
  const Digest digest = Sha256(kCompareDomain, presented);
  // Compares digests, and always all of them, so that timing reveals neither which key matched nor how much of it.
  const Key* match = nullptr;
  for (const Key& key : keys_) {
    if (CRYPTO_memcmp(key.digest.data(), digest.data(), digest.size()) == 0) match = &key;
  }
  if (match != nullptr) return Identity{match->principal, Scopes::All(), ""};
  return InvalidArgument(!any ? "No API key was given. Send it as `Authorization: Bearer KEY`."
                              : "The API key is not one of this server's.",
                         "", "invalid_api_key");
}

bool AccessPolicy::IsForeignAllowed(std::string_view origin, std::string_view host) const {
  return !IsOwnOrigin(origin, host) && IsAllowedOrigin(origin);
}

std::string SelectSubprotocol(std::string_view offered) {
  std::string_view key;
  for (const std::string_view item : SplitList(offered)) {
    if (item == "responses" || item == "realtime" || item == "ringside") return std::string(item);
    if (key.empty() && item.starts_with(kKeySubprotocol)) key = item;
  }
  return std::string(key);
}

}  // namespace ringside
