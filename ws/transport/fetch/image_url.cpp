#include "ws/transport/fetch/image_url.h"

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <optional>

namespace ringside {
namespace {

namespace ip = boost::asio::ip;

constexpr size_t kMaxUrlBytes = 8 << 10;
constexpr size_t kMaxHostBytes = 253;

Status BadUrl() { return InvalidArgument("it is not an http or https URL"); }

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::optional<ip::address> AddressOf(std::string_view host) {
  boost::system::error_code error;
  const ip::address address = ip::make_address(std::string(host), error);
  return error ? std::nullopt : std::optional(address);
}

bool IsName(std::string_view host) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-'; };
  return !host.empty() && host.size() <= kMaxHostBytes && std::ranges::all_of(host, allowed);
}

/// Parses "HOST", "HOST:PORT" or "[ADDRESS]:PORT".
Result<WebOrigin> ParseAuthority(bool tls, std::string_view text) {
  WebOrigin origin{.tls = tls, .host = "", .port = static_cast<uint16_t>(tls ? 443 : 80)};
  std::string_view port;
  const bool bracketed = text.starts_with('[');
  const size_t host_end = bracketed ? text.find(']') : text.find(':');
  origin.host =
      Lower(text.substr(bracketed ? 1 : 0, host_end == text.npos ? text.npos : host_end - (bracketed ? 1 : 0)));
  if (bracketed) {
    const auto address = AddressOf(origin.host);
    if (host_end == text.npos || !address || !address->is_v6() || origin.host.find('%') != std::string::npos) {
      return BadUrl();
    }
    origin.host = address->to_string();  // one spelling
  } else if (!IsName(origin.host)) {
    return BadUrl();
  }
  if (host_end != text.npos) port = text.substr(host_end + (bracketed ? 1 : 0));
  if (port.empty()) return origin;
  port.remove_prefix(1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), origin.port);
  const bool numeric = error == std::errc() && end == port.data() + port.size() && origin.port > 0;
  if (!numeric || text[text.size() - port.size() - 1] != ':') return BadUrl();
  return origin;
}

/// Removes the scheme. False if it is neither http nor https.
bool TakeScheme(std::string_view* text, bool* tls) {
  const size_t end = text->find("://");
  if (end == text->npos) return false;
  const std::string scheme = Lower(text->substr(0, end));
  *tls = scheme == "https";
  text->remove_prefix(end + 3);
  return *tls || scheme == "http";
}

bool IsPublicV4(ip::address_v4 address) {
  struct Block {
    uint32_t first;
    int bits;
  };
  // RFC 6890 and IANA's registry of special-purpose addresses.
  static constexpr std::array<Block, 16> kSpecial = {{{0x00000000, 8},
                                                      {0x0A000000, 8},
                                                      {0x64400000, 10},
                                                      {0x7F000000, 8},
                                                      {0xA9FE0000, 16},
                                                      {0xAC100000, 12},
                                                      {0xC0000000, 24},
                                                      {0xC0000200, 24},
                                                      {0xC01FC400, 24},
                                                      {0xC034C100, 24},
                                                      {0xC0586300, 24},
                                                      {0xC0A80000, 16},
                                                      {0xC6120000, 15},
                                                      {0xC6336400, 24},
                                                      {0xCB007100, 24},
                                                      {0xE0000000, 3}}};
  const uint32_t bits = address.to_uint();
  return std::ranges::none_of(kSpecial,
                              [bits](const Block& block) { return (bits ^ block.first) >> (32 - block.bits) == 0; });
}

bool IsPublicV6(const ip::address_v6& address) {
  if (address.is_v4_mapped()) return IsPublicV4(ip::make_address_v4(ip::v4_mapped, address));
  const ip::address_v6::bytes_type b = address.to_bytes();
  if ((b[0] & 0xE0) != 0x20) return false;                               // outside 2000::/3: NAT64 and local ones
  if (b[0] == 0x20 && b[1] == 0x02) return false;                        // 6to4
  if (b[0] == 0x20 && b[1] == 0x01 && (b[2] & 0xFE) == 0) return false;  // 2001::/23: Teredo, ORCHID and others
  if (b[0] == 0x20 && b[1] == 0x01 && b[2] == 0x0D && b[3] == 0xB8) return false;  // documentation
  return !(b[0] == 0x3F && b[1] == 0xFF && (b[2] & 0xF0) == 0);                    // documentation
}

}  // namespace

std::string WebOrigin::Authority() const {
  std::string text = host.find(':') == std::string::npos ? host : '[' + host + ']';
  if (port != (tls ? 443 : 80)) text += ':' + std::to_string(port);
  return text;
}

Result<WebOrigin> ParseImageHost(std::string_view entry) {
  bool tls = true;
  if (entry.find("://") != entry.npos && !TakeScheme(&entry, &tls)) return BadUrl();
  return ParseAuthority(tls, entry);
}

Result<ImageUrl> ParseImageUrl(std::string_view url) {
  const auto visible = [](char c) { return c > ' ' && c < 127 && c != '\\' && c != '"' && c != '<' && c != '>'; };
  ImageUrl parsed;
  bool tls = false;
  if (url.size() > kMaxUrlBytes || !std::ranges::all_of(url, visible) || !TakeScheme(&url, &tls)) return BadUrl();
  url = url.substr(0, url.find('#'));
  const size_t path = std::min(url.find_first_of("/?"), url.size());
  ASSIGN_OR_RETURN(parsed.origin, ParseAuthority(tls, url.substr(0, path)));
  parsed.target = url.substr(path);
  if (!parsed.target.starts_with('/')) parsed.target.insert(0, "/");
  return parsed;
}

Result<ImageUrl> ParseRedirect(const ImageUrl& from, std::string_view location) {
  if (!location.starts_with('/') || location.starts_with("//")) return ParseImageUrl(location);
  const std::string scheme = from.origin.tls ? "https://" : "http://";
  return ParseImageUrl(scheme + from.origin.Authority() + std::string(location));
}

bool IsAddressLiteral(std::string_view host) { return AddressOf(host).has_value(); }

bool IsPublicAddress(std::string_view address) {
  const auto parsed = AddressOf(address);
  if (!parsed) return false;
  return parsed->is_v4() ? IsPublicV4(parsed->to_v4()) : IsPublicV6(parsed->to_v6());
}

}  // namespace ringside
