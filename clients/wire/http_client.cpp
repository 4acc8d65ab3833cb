#include "clients/wire/http_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/json/json_tree.h"
#include "clients/wire/wire_stream.h"

namespace ringside::client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr uint64_t kMaxBodyBytes = 256u << 20;

/// One request on one connection. The timeout applies to each step, and a large body takes many steps.
class Exchange {
 public:
  Exchange(const ServerUrl& url, std::chrono::seconds timeout) : url_(url), timeout_(timeout), stream_(context_, url) {}

  error_code Run(http::request<http::string_body>& request, http::response_parser<http::string_body>& parser) {
    tcp::resolver resolver(context_);
    error_code error;
    const auto found = resolver.resolve(url_.host, std::to_string(url_.port), error);
    if (error) return error;
    const auto keep = [&error](error_code result, auto&&...) { error = result; };
    Within([&] { stream_.next_layer().async_connect(found, keep); });
    if (error) return error;
    Within([&] { stream_.Handshake(keep); });
    http::request_serializer<http::string_body> serializer(request);
    while (!error && !serializer.is_done()) Within([&] { http::async_write_some(stream_, serializer, keep); });
    while (!error && !parser.is_done()) Within([&] { http::async_read_some(stream_, buffer_, parser, keep); });
    return error;
  }

  std::string Explain(const error_code& error) const { return stream_.Explain(error); }

 private:
  /// Runs the operation that `begin` starts, within the timeout.
  template <class Begin>
  void Within(Begin begin) {
    stream_.next_layer().expires_after(timeout_);
    begin();
    context_.run();
    context_.restart();
  }

  const ServerUrl& url_;
  const std::chrono::seconds timeout_;
  asio::io_context context_{1};
  WireStream stream_;
  beast::flat_buffer buffer_;
};

Failure RefusedBy(int status, const std::string& body) {
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
  if (status == 401) failure.message += " Give the server's key with --api-key or RINGSIDE_API_KEY.";
  return failure;
}

}  // namespace

Outcome<HttpAnswer> HttpClient::Request(const std::string& method, const std::string& path, const std::string& body,
                                        const std::string& content_type) const {
  http::request<http::string_body> request;
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
  Exchange exchange(url_, timeout_);
  const error_code error = exchange.Run(request, parser);
  if (error) {
    return Failure{"Cannot reach the server at " + url_.Authority() + ": " + exchange.Explain(error) + "."};
  }
  HttpAnswer answer{static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
  if (answer.status >= 400) return RefusedBy(answer.status, answer.body);
  return answer;
}

}  // namespace ringside::client
