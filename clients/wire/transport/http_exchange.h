// One HTTP request and its response on one connection. Blocking. The timeout applies to each step without progress, so
// a large body is not limited. Included by .cpp files only. THREAD: one.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <string>

#include "clients/wire/transport/server_url.h"
#include "clients/wire/transport/wire_stream.h"

namespace ringside::client {

class HttpExchange {
 public:
  using error_code = boost::system::error_code;
  using Request = boost::beast::http::request<boost::beast::http::string_body>;

  HttpExchange(const ServerUrl& url, std::chrono::seconds timeout)
      : url_(url), timeout_(timeout), stream_(context_, url_) {}

  /// Connects, and sends the request.
  error_code Send(const Request& request);
  template <class Parser>
  error_code ReadHeader(Parser& parser) {
    return Step([&](auto done) { boost::beast::http::async_read_header(stream_, buffer_, parser, done); });
  }
  /// Reads a part of the response.
  template <class Parser>
  error_code ReadSome(Parser& parser) {
    return Step([&](auto done) { boost::beast::http::async_read_some(stream_, buffer_, parser, done); });
  }
  /// A phrase for the user.
  std::string Explain(const error_code& error) const { return stream_.Explain(error); }

 private:
  /// Runs the operation that `start` starts, within the timeout.
  template <class Start>
  error_code Step(Start start) {
    error_code error;
    stream_.next_layer().expires_after(timeout_);
    start([&error](error_code result, auto&&...) { error = result; });
    context_.run();
    context_.restart();
    return error;
  }

  const ServerUrl url_;
  const std::chrono::seconds timeout_;
  boost::asio::io_context context_{1};
  WireStream stream_;
  boost::beast::flat_buffer buffer_;
};

}  // namespace ringside::client
