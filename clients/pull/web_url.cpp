#include "clients/pull/web_url.h"

#include <algorithm>
#include <cctype>

namespace ringside::client {
namespace {

constexpr size_t kMaxUrlBytes = 16384;  // signed URLs of content networks have some thousands
constexpr size_t kMaxFileNameBytes = 200;

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string Decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && HexValue(text[i + 1]) >= 0 && HexValue(text[i + 2]) >= 0;
    decoded += escape ? static_cast<char>(HexValue(text[i + 1]) * 16 + HexValue(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return decoded;
}

Failure UnusableUrl(std::string_view text, const char* why) {
  return Failure{"The URL \"" + std::string(text.substr(0, 200)) + "\" " + why};
}

}  // namespace

std::string WebUrl::Authority() const {
  const std::string name = host.find(':') != std::string::npos ? "[" + host + "]" : host;
  return port == (tls ? 443 : 80) ? name : name + ":" + std::to_string(port);
}

bool WebUrl::IsLoopback() const { return host == "localhost" || host == "::1" || host.starts_with("127."); }

std::string WebUrl::FileName() const {
  const std::string_view path = std::string_view(target).substr(0, target.find_first_of("?#"));
  return Decoded(path.substr(path.rfind('/') + 1));
}

Outcome<WebUrl> ParseWebUrl(std::string_view text) {
  const bool tls = text.starts_with("https://");
  if (!tls && !text.starts_with("http://")) return UnusableUrl(text, "must begin with https:// or http://.");
  const bool bad = std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; });
  if (bad || text.size() > kMaxUrlBytes)
    return UnusableUrl(text, "is too long, or has characters that must be encoded.");
  const std::string_view rest = text.substr(text.find("//") + 2);
  const size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  if (rest.substr(0, end).find('@') != std::string_view::npos) return UnusableUrl(text, "must have no user name.");
  const Outcome<ServerUrl> server = ParseServerUrl((tls ? "https://" : "http://") + std::string(rest.substr(0, end)));
  if (!server) return server.failure();
  if (!IsPlainFileName(server->host)) return UnusableUrl(text, "has no usable host name.");  // it names a folder
  WebUrl url{.tls = tls, .host = server->host, .port = server->port};
  std::ranges::transform(url.host, url.host.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string_view target = rest.substr(end, rest.find('#') - end);
  if (!target.empty()) url.target = target.starts_with('/') ? std::string(target) : "/" + std::string(target);
  return url;
}

Outcome<WebUrl> FollowLocation(const WebUrl& from, std::string_view location) {
  std::string absolute(location);
  if (location.starts_with("//")) {
    absolute = (from.tls ? "https:" : "http:") + absolute;
  } else if (location.find("://") == std::string_view::npos) {
    const std::string path = from.target.substr(0, from.target.find('?'));
    const std::string folder = location.starts_with('/') ? "" : path.substr(0, path.rfind('/') + 1);
    absolute = (from.tls ? "https://" : "http://") + from.Authority() + folder + absolute;
  }
  const Outcome<WebUrl> to = ParseWebUrl(absolute);
  if (!to)
    return Failure{"The host " + from.Authority() + " redirects to an unusable address: " + to.failure().message};
  if (from.tls && !to->tls)
    return Failure{"The host " + from.Authority() + " redirects from https to http, which is not followed."};
  return *to;
}

std::string EncodePath(std::string_view path) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::string_view("-._~/").find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFileNameBytes && !name.starts_with('.') &&
         std::ranges::none_of(
             name, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f || c == '/' || c == '\\'; });
}

}  // namespace ringside::client
