#include "ws/http.h"

#include <array>
#include <nlohmann/json.hpp>

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
/// Published codes whose HTTP status differs from that of their Status code.
constexpr std::array kReasons = {
    ReasonEntry{"previous_response_not_found", 400, kInvalidRequest},
    ReasonEntry{"invalid_api_key", 401, kInvalidRequest},
    ReasonEntry{"origin_not_allowed", 403, kInvalidRequest},
    ReasonEntry{"method_not_allowed", 405, kInvalidRequest},
    ReasonEntry{"request_timeout", 408, kInvalidRequest},
    ReasonEntry{"request_too_large", 413, kInvalidRequest},
    ReasonEntry{"uri_too_long", 414, kInvalidRequest},
    ReasonEntry{"unsupported_media_type", 415, kInvalidRequest},
    ReasonEntry{"misdirected_request", 421, kInvalidRequest},
    ReasonEntry{"upgrade_required", 426, kInvalidRequest},
    ReasonEntry{"headers_too_large", 431, kInvalidRequest},
    ReasonEntry{"too_many_connections", 503, kServerError},
};

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

std::string_view HttpRequest::Query(std::string_view name) const { return FindFirst(query, name); }
std::string_view HttpRequest::Header(std::string_view name) const { return FindFirst(headers, name); }

WireError MapStatus(const Status& status) {
  WireError wire = MapCode(status.code());
  if (status.reason().empty()) return wire;
  wire.code = status.reason();
  for (const ReasonEntry& entry : kReasons) {
    if (entry.reason != status.reason()) continue;
    wire.http_status = entry.http_status;
    wire.type = entry.type;
  }
  return wire;
}

HttpResponse ErrorResponse(const Status& status) {
  CHECK(!status.ok());
  const WireError wire = MapStatus(status);
  nlohmann::json error = {{"message", status.message()}, {"type", wire.type}, {"param", nullptr}, {"code", wire.code}};
  if (!status.param().empty()) error["param"] = status.param();
  HttpResponse response;
  response.status = wire.http_status;
  // Messages may quote the request: bytes that are no UTF-8 become U+FFFD instead of an exception.
  response.body =
      nlohmann::json{{"error", std::move(error)}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  switch (wire.http_status) {
    case 429:
    case 503:
      response.headers.emplace_back("Retry-After", "1");
      break;
    case 408:
    case 409:
    case 500:
      // The stock SDKs repeat these on their own. A busy conversation becomes free; a broken one does not mend.
      if (status.code() == StatusCode::kBusy) {
        response.headers.emplace_back("Retry-After", "1");
      } else {
        response.headers.emplace_back("x-should-retry", "false");
      }
      break;
    default:
      break;
  }
  return response;
}

}  // namespace ringside
