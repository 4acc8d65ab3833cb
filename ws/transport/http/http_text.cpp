#include "ws/transport/http/http_text.h"

#include <fmt/format.h>

#include <cctype>
#include <random>

#include "base/hex.h"

namespace ringside {
namespace {

const char* Reason(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 426:
      return "Upgrade Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 507:
      return "Insufficient Storage";
    default:
      return "Status";
  }
}

bool Decode(std::string_view text, bool plus_is_space, std::string& out) {
  out.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return false;
      const int high = HexDigit(text[i + 1]);
      const int low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return false;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (c == '\0') return false;
    out += c;
  }
  return true;
}

/// Decodes the escapes of a path except ambiguous ones: a path separator, a dot of a dot segment, a second escape, a
/// letter that needs none. Those stay as written and so match no route.
bool DecodePath(std::string_view text, std::string& out) {
  out.clear();
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const std::string_view escape = text.substr(i, 3);
    if (!Decode(escape, false, decoded)) return false;
    const auto c = static_cast<unsigned char>(decoded.front());
    constexpr std::string_view kAmbiguous = "/\\%.-_~";
    const bool ambiguous = c < ' ' || c == 127 || (c < 128 && std::isalnum(c) != 0) ||
                           kAmbiguous.find(decoded.front()) != std::string_view::npos;
    out += ambiguous ? escape : std::string_view(decoded);
    i += 2;
  }
  return true;
}

/// True for statuses without a body.
bool IsBodiless(int status) { return status == 204 || status == 304; }

/// True also for a stream that is already complete.
bool IsStream(const HttpResponse& response) {
  return response.stream || response.content_type == "text/event-stream" ||
         response.content_type == "application/x-ndjson";
}

/// True if a handler's header value cannot end the header.
bool IsHeaderText(std::string_view text) {
  for (const char c : text) {
    if (c == '\r' || c == '\n' || c == '\0') return false;
  }
  return true;
}

}  // namespace

std::optional<HttpTarget> ParseTarget(std::string_view target) {
  HttpTarget out;
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const size_t host = target.find("//") + 2;
    const size_t slash = target.find('/', host);
    if (slash == std::string_view::npos || slash == host) return std::nullopt;
    out.authority = target.substr(host, slash - host);
    target.remove_prefix(slash);
  }
  if (!target.starts_with('/')) return std::nullopt;
  const size_t mark = target.find('?');
  if (!DecodePath(target.substr(0, mark), out.path)) return std::nullopt;
  std::string_view query = mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
  query = query.substr(0, query.find('#'));
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    std::string name, value;
    if (!Decode(pair.substr(0, equals), true, name)) return std::nullopt;
    if (equals < pair.size() && !Decode(pair.substr(equals + 1), true, value)) return std::nullopt;
    out.query.emplace_back(std::move(name), std::move(value));
  }
  return out;
}

bool HasBody(const HttpResponse& response, const AnswerStyle& style) {
  return !style.without_body && !IsBodiless(response.status);
}

std::string WriteHead(const HttpResponse& response, const AnswerStyle& style) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nServer: ringside\r\n", response.status, Reason(response.status));
  const auto add = [&out](std::string_view name, std::string_view value) {
    if (IsHeaderText(name) && IsHeaderText(value)) out += fmt::format("{}: {}\r\n", name, value);
  };
  if (!IsBodiless(response.status)) {
    add("Content-Type", response.content_type);
    if (style.body == AnswerStyle::Body::kSized) add("Content-Length", std::to_string(response.body.size()));
    if (style.body == AnswerStyle::Body::kChunks) add("Transfer-Encoding", "chunked");
  }
  add("Connection", style.keep_alive ? "keep-alive" : "close");
  if (IsStream(response)) {
    // nginx buffers responses by default, which would delay a stream.
    add("X-Accel-Buffering", "no");
    add("Cache-Control", "no-cache, no-store");
  } else {
    add("Cache-Control", response.cache_control);
  }
  add("X-Content-Type-Options", "nosniff");
  add("x-request-id", style.request_id);
  add("traceparent", style.traceparent);
  if (!style.allow_origin.empty()) {
    add("Access-Control-Allow-Origin", style.allow_origin);
    add("Access-Control-Expose-Headers",
        "x-request-id, traceparent, Retry-After, retry-after-ms, x-should-retry, X-Ringside-Ignored");
    add("Vary", "Origin");
  }
  for (const auto& [name, value] : response.headers) add(name, value);
  return out += "\r\n";
}

std::string WriteAnswer(const HttpResponse& response, const AnswerStyle& style) {
  std::string out = WriteHead(response, style);
  if (HasBody(response, style)) out += response.body;
  return out;
}

std::string MakeRequestDigits() {
  // One generator per thread: ids must be unique, not secret.
  thread_local std::mt19937_64 source = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device(), device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  const uint64_t high = source();
  const uint64_t low = source();
  return fmt::format("{:016x}{:016x}", high, low);
}

}  // namespace ringside
