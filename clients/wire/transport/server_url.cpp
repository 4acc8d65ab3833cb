#include "clients/wire/transport/server_url.h"

#include <charconv>

namespace ringside::client {
namespace {

Failure BadUrl(std::string_view text, const std::string& why) {
  return Failure{"The URL \"" + std::string(text) + "\" " + why};
}

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::string ServerUrl::Authority() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Outcome<ServerUrl> ParseServerUrl(std::string_view text) {
  ServerUrl url;
  std::string_view rest = text;
  url.tls = TakePrefix(rest, "wss://") || TakePrefix(rest, "https://");
  const bool has_scheme = url.tls || TakePrefix(rest, "ws://") || TakePrefix(rest, "http://");
  if (rest.find("://") != std::string_view::npos) {
    return BadUrl(text, "must begin with ws://, http://, wss:// or https://.");
  }

  const size_t slash = rest.find('/');
  std::string_view authority = rest.substr(0, slash);
  std::string_view path = slash == std::string_view::npos ? std::string_view() : rest.substr(slash);
  if (path.find_first_of("?# ") != std::string_view::npos) return BadUrl(text, "must have no query.");

  std::string_view port;
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return BadUrl(text, "has a [ without its ].");
    url.host = authority.substr(1, close - 1);
    port = authority.substr(close + 1);
    if (!port.empty() && !TakePrefix(port, ":")) return BadUrl(text, "has text after the ].");
  } else {
    const size_t colon = authority.rfind(':');
    url.host = authority.substr(0, colon);
    if (colon != std::string_view::npos) port = authority.substr(colon + 1);
  }
  if (url.host.empty()) return BadUrl(text, "has no host.");
  if (url.host.find_first_of("@ \r\n") != std::string::npos) return BadUrl(text, "has a bad host.");
  if (!port.empty()) {
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
    if (error != std::errc() || end != port.data() + port.size() || url.port == 0) {
      return BadUrl(text, "has a bad port.");
    }
  } else if (has_scheme) {
    url.port = url.tls ? 443 : 80;
  }

  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.ends_with("/responses")) path.remove_suffix(std::string_view("/responses").size());
  if (!path.empty()) url.base_path = path;
  return url;
}

}  // namespace ringside::client
