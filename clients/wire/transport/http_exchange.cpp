#include "clients/wire/transport/http_exchange.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/write.hpp>

namespace ringside::client {

HttpExchange::error_code HttpExchange::Send(const Request& request) {
  boost::asio::ip::tcp::resolver resolver(context_);
  error_code error;
  const auto found = resolver.resolve(url_.host, std::to_string(url_.port), error);
  if (error) return error;
  error = Step([&](auto done) { stream_.next_layer().async_connect(found, done); });
  if (!error) error = Step([&](auto done) { stream_.Handshake(done); });
  boost::beast::http::request_serializer<boost::beast::http::string_body> serializer(request);
  while (!error && !serializer.is_done()) {
    error = Step([&](auto done) { boost::beast::http::async_write_some(stream_, serializer, done); });
  }
  return error;
}

}  // namespace ringside::client
