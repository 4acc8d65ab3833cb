#include "clients/wire/transport/http_client.h"

#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/json/json_tree.h"
#include "clients/wire/transport/http_exchange.h"

namespace ringside::client {
namespace {

namespace http = boost::beast::http;

constexpr uint64_t kMaxBodyBytes = 256u << 20;

Failure RefusedBy(int status, const std::string& body, bool with_key) {
  Failure failure{"The server answered HTTP " + std::to_string(status) + ".", status};
  const auto json = ParseJsonTree(body, kLargeJson);
  if (json.is_object() && json.contains("error") && json["error"].is_object()) {
    const auto& error = json["error"];
    if (error.contains("message") && error["message"].is_string()) failure.message = error["message"];
    if (error.contains("code") && error["code"].is_string()) failure.code = error["code"];
  }
  // The reason given by /readyz.
  if (json.is_object() && json.contains("reason") && json["reason"].is_string()) {
    failure.message = "The server is not ready: " + json["reason"].get<std::string>() + ".";
  }
  // A route outside the key's scope answers like an unknown one.
  if (status == 404 && failure.message.starts_with("There is nothing at "))
    failure.message += " The command may need a key with scope admin.";
  // The server's own sentence about a missing key names the header, which this program sets.
  constexpr const char* kFlags = "--api-key or RINGSIDE_API_KEY.";
  if (status == 401 && with_key) failure.message += std::string(" Check ") + kFlags;
  if (status == 401 && !with_key) failure.message = std::string("The server requires a key: give it with ") + kFlags;
  return failure;
}

}  // namespace

Outcome<HttpAnswer> HttpClient::Request(const std::string& method, const std::string& path, const std::string& body,
                                        const std::string& content_type) const {
  HttpExchange::Request request;
  request.version(11);
  request.method_string(method);
  request.target(url_.Target(path));
  request.set(http::field::host, url_.Authority());
  request.set(http::field::user_agent, "ringside/" RINGSIDE_VERSION);
  request.set(http::field::accept, "application/json, application/octet-stream");
  request.set(http::field::connection, "close");
  if (!api_key_.empty()) request.set(http::field::authorization, "Bearer " + api_key_);
  if (method == "POST") {
    request.set(http::field::content_type, content_type);
    request.body() = body;
    request.prepare_payload();
  }
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxBodyBytes);
  HttpExchange exchange(url_, timeout_);
  HttpExchange::error_code error = exchange.Send(request);
  while (!error && !parser.is_done()) error = exchange.ReadSome(parser);
  if (error) {
    return Failure{"Cannot reach the server at " + url_.Authority() + ": " + exchange.Explain(error) + "."};
  }
  HttpAnswer answer{static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
  if (answer.status >= 400) return RefusedBy(answer.status, answer.body, !api_key_.empty());
  return answer;
}

}  // namespace ringside::client
