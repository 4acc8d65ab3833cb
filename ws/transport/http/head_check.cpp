#include "ws/transport/http/head_check.h"

#include <algorithm>
#include <boost/beast/http/field.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <cctype>

#include "ws/transport/ascii.h"
#include "ws/transport/http/http_refusals.h"

namespace ringside {
namespace {

namespace http = boost::beast::http;

constexpr size_t kMaxTargetBytes = 4 << 10;
constexpr std::string_view kTicket = "ticket";  // query parameter

/// 16 bytes in base64.
bool IsSocketKey(std::string_view key) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  return key.size() == 24 && key.ends_with("==") &&
         key.substr(0, 22).find_first_not_of(kAlphabet) == std::string_view::npos;
}

}  // namespace

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

Result<HttpTarget> CheckHead(const HeadMessage& head) {
  if (head.target().size() > kMaxTargetBytes) {
    return InvalidArgument("The request's path is too long.", "", "uri_too_long");
  }
  if (head.version() == 11 && head.count(http::field::host) == 0) {
    return BadRequest("A request must have exactly one Host header.");
  }
  // With two keys or two origins the request is ambiguous.
  for (const auto once : {http::field::origin, http::field::authorization, http::field::content_type}) {
    if (head.count(once) > 1) {
      return BadRequest("A request has at most one " + std::string(View(to_string(once))) + " header.");
    }
  }
  if (head.count("x-api-key") > 1) return BadRequest("A request may have at most one x-api-key header.");
  std::optional<HttpTarget> target = ParseTarget(View(head.target()));
  if (!target) return BadRequest("The request's path cannot be read.");
  const auto is_ticket = [](const auto& parameter) { return parameter.first == kTicket; };
  if (std::ranges::count_if(target->query, is_ticket) > 1) return BadRequest("A request may have at most one ticket.");
  if (!target->authority.empty() && AsciiLower(target->authority) != AsciiLower(View(head[http::field::host]))) {
    return BadRequest("The request's path names another host than the Host header.");
  }
  if (head.version() == 11 && head.count(http::field::expect) > 0 && !ExpectsContinue(head)) {
    return InvalidArgument("The only supported expectation is 100-continue.", "", "expectation_failed");
  }
  if (head.version() != 11 && head.count(http::field::transfer_encoding) > 0) {
    return BadRequest("HTTP/1.0 does not support Transfer-Encoding.");
  }
  const std::string encoding = AsciiLower(View(head[http::field::content_encoding]));
  if (!encoding.empty() && encoding != "identity") {
    return InvalidArgument("Compressed bodies are not accepted.", "", "unsupported_media_type");
  }
  return std::move(*target);
}

bool ExpectsContinue(const HeadMessage& head) {
  return head.count(http::field::expect) == 1 && AsciiLower(View(head[http::field::expect])) == "100-continue";
}

bool HasSocketKey(const HeadMessage& head) {
  return head.count(http::field::sec_websocket_key) == 1 && IsSocketKey(View(head[http::field::sec_websocket_key]));
}

HttpRequest MakeRequest(const HeadMessage& head, HttpTarget target, std::string* ticket) {
  HttpRequest request;
  request.method = std::string(View(head.method_string()));
  request.path = std::move(target.path);
  for (auto& [name, value] : target.query) {
    if (name == kTicket) {
      *ticket = std::move(value);
    } else {
      request.query.emplace_back(std::move(name), std::move(value));
    }
  }
  for (const auto& field : head) {
    request.headers.emplace_back(AsciiLower(View(field.name_string())), std::string(View(field.value())));
  }
  return request;
}

AccessRequest MakeAccessRequest(const HeadMessage& head, const HttpRequest& request, std::string_view ticket) {
  AccessRequest access;
  access.host = request.Header("host");
  access.origin = request.Header("origin");
  access.has_origin = head.count(http::field::origin) > 0;
  access.authorization = request.Header("authorization");
  access.subprotocols = request.Header("sec-websocket-protocol");
  access.upgrade = boost::beast::websocket::is_upgrade(head);
  access.api_key = request.Header("x-api-key");
  access.ticket = ticket;
  access.fetch_site = request.Header("sec-fetch-site");
  access.fetch_mode = request.Header("sec-fetch-mode");
  return access;
}

}  // namespace ringside
