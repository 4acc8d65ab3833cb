#include "ws/transport/http/http.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/refusals/server_overload.h"

namespace ringside {
namespace {

std::string_view FindFirst(const std::vector<std::pair<std::string, std::string>>& pairs, std::string_view name) {
  for (const auto& [key, value] : pairs) {
    if (key == name) return value;
  }
  return {};
}

constexpr char kInvalidRequest[] = "invalid_request_error";
constexpr char kServerError[] = "server_error";

struct ReasonEntry {
  std::string_view reason;
  int http_status;
  const char* type;
};
/// Published codes whose HTTP status differs from that of their StatusCode.
constexpr std::array kReasons = {
    ReasonEntry{"previous_response_not_found", 400, kInvalidRequest},
    ReasonEntry{"invalid_api_key", 401, kInvalidRequest},
    ReasonEntry{"origin_not_allowed", 403, kInvalidRequest},
    ReasonEntry{"method_not_allowed", 405, kInvalidRequest},
    ReasonEntry{"request_timeout", 408, kInvalidRequest},
    ReasonEntry{"message_too_big", 413, kInvalidRequest},
    ReasonEntry{"request_too_large", 413, kInvalidRequest},
    ReasonEntry{"uri_too_long", 414, kInvalidRequest},
    ReasonEntry{"unsupported_media_type", 415, kInvalidRequest},
    ReasonEntry{"misdirected_request", 421, kInvalidRequest},
    ReasonEntry{"upgrade_required", 426, kInvalidRequest},
    ReasonEntry{"headers_too_large", 431, kInvalidRequest},
    ReasonEntry{"session_damaged", 500, kServerError},
    ReasonEntry{"expectation_failed", 417, kInvalidRequest},
    ReasonEntry{"too_many_connections", 503, kServerError},
    ReasonEntry{"storage_full", 507, kServerError},
    ReasonEntry{"storage_failed", 503, kServerError},
};

// Limit of an error message, which may quote the request.
constexpr size_t kMaxMessageBytes = 512;
constexpr size_t kMaxParamBytes = 256;

/// The first `bytes` of `text`, without a truncated UTF-8 character.
std::string Cut(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes) + "...";
}

/// Internal failures report their reason only; the system's message, which may contain paths, goes to the log.
bool IsInternal(const Status& status) {
  return status.reason().empty() && (status.code() == StatusCode::kIo || status.code() == StatusCode::kCorruption);
}

nlohmann::json ErrorMembers(const WireError& wire) {
  nlohmann::json error = {{"message", wire.message}, {"type", wire.type}, {"param", nullptr}, {"code", wire.code}};
  if (!wire.param.empty()) error["param"] = wire.param;
  return error;
}

// Default retry delay.
constexpr int64_t kRetryAfterMs = 1'000;

WireError MapCode(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return {200, "", ""};
    case StatusCode::kInvalidArgument:
      return {400, kInvalidRequest, "invalid_value"};
    case StatusCode::kNotFound:
      return {404, kInvalidRequest, "not_found"};
    case StatusCode::kBusy:
      return {409, kInvalidRequest, "busy"};
    case StatusCode::kOverloaded:
      return {429, "rate_limit_error", "rate_limit_exceeded"};
    case StatusCode::kCancelled:
      return {409, kInvalidRequest, "cancelled"};
    case StatusCode::kMismatch:
      return {409, kInvalidRequest, "mismatch"};
    case StatusCode::kUnavailable:
      return {503, kServerError, "unavailable"};
    case StatusCode::kCorruption:
    case StatusCode::kIo:
      break;
  }
  return {500, kServerError, "server_error"};
}

}  // namespace

void LateAnswer::Give(std::function<HttpResponse()> make) {
  std::function<void()> wake;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(given_, true)) return;
    make_ = std::move(make);
    wake.swap(wake_);
  }
  if (wake) wake();
}

void LateAnswer::Await(std::function<void()> wake) {
  {
    std::lock_guard lock(mutex_);
    if (!given_) wake.swap(wake_);
  }
  if (wake) wake();
}

std::function<HttpResponse()> LateAnswer::Take() {
  std::lock_guard lock(mutex_);
  return std::exchange(make_, nullptr);
}

std::string_view HttpRequest::Query(std::string_view name) const { return FindFirst(query, name); }
std::string_view HttpRequest::Header(std::string_view name) const { return FindFirst(headers, name); }

WireError MapStatus(const Status& status, int64_t retry_after_ms) {
  WireError wire = MapCode(status.code());
  if (!status.reason().empty()) wire.code = status.reason();
  wire.message =
      IsInternal(status) ? "The server failed to answer this request." : Cut(status.message(), kMaxMessageBytes);
  wire.param = Cut(status.param(), kMaxParamBytes);
  for (const ReasonEntry& entry : kReasons) {
    if (entry.reason != status.reason()) continue;
    wire.http_status = entry.http_status;
    wire.type = entry.type;
  }
  // A busy conversation becomes free.
  const bool free_later = status.code() == StatusCode::kBusy && wire.code != "superseded";
  if (wire.http_status == 429 || wire.http_status == 503 || wire.http_status == 507 || free_later) {
    wire.retry_after_ms = retry_after_ms > 0 ? retry_after_ms : kRetryAfterMs;
    if (const auto overload = ReadServerOverload(status)) wire.retry_after_ms = overload->retry_after_s * 1000;
  }
  return wire;
}

std::string ErrorEvent(const Status& status) {
  const WireError wire = MapStatus(status);
  nlohmann::json error = ErrorMembers(wire);
  if (wire.retry_after_ms > 0) error["retry_after_ms"] = wire.retry_after_ms;
  return nlohmann::json{{"type", "error"}, {"status", wire.http_status}, {"error", std::move(error)}}.dump();
}

HttpResponse JsonResponse(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

HttpResponse ErrorResponse(const Status& status, int64_t retry_after_ms) {
  CHECK(!status.ok());
  const WireError wire = MapStatus(status, retry_after_ms);
  if (IsInternal(status)) LogError("a request failed: {}", status.message());
  nlohmann::json error = ErrorMembers(wire);
  HttpResponse response;
  response.status = wire.http_status;
  // Messages may quote the request: invalid UTF-8 becomes U+FFFD instead of an exception.
  response.body =
      nlohmann::json{{"error", std::move(error)}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const int http_status = wire.http_status;
  if (wire.retry_after_ms > 0) {
    response.headers.emplace_back("Retry-After", std::to_string((wire.retry_after_ms + 999) / 1000));
    response.headers.emplace_back("retry-after-ms", std::to_string(wire.retry_after_ms));
  } else if (http_status == 408 || http_status == 409 || http_status >= 500) {
    // The stock SDKs would retry these, without success.
    response.headers.emplace_back("x-should-retry", "false");
  }
  return response;
}

}  // namespace ringside
