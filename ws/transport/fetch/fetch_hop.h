// One GET request of a fetch, until a deadline. Blocking, on an io_context of its own. One thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ws/transport/fetch/image_fetcher.h"

namespace ringside {

/// The error of a fetch that failed: `why` ends the sentence.
Status BadFetch(const std::string& why);

class FetchHop {
 public:
  using Clock = std::chrono::steady_clock;

  /// `tls` outlives the hop. REQUIRES: the URL's origin is listed.
  FetchHop(const ImageUrl& url, Clock::time_point deadline, int64_t max_bytes, boost::asio::ssl::context& tls);
  FetchHop(const FetchHop&) = delete;
  FetchHop& operator=(const FetchHop&) = delete;

  /// Resolves the name, connects, and receives the head of the response.
  /// ERRORS: image_url_not_allowed if an address is not public; invalid_image_url.
  Status Send();
  /// Target of a redirect.
  std::optional<std::string> Redirect() const;
  /// ERRORS: invalid_image_url for another status than 200, a body that is too large, too slow or cut; as `charge`.
  Result<std::string> Body(const ImageFetcher::Charge& charge);

 private:
  using Tcp = boost::asio::ip::tcp;
  using error_code = boost::system::error_code;

  /// Runs one asynchronous operation to its end or the deadline. After a timeout nothing may run any more.
  template <class Begin>
  error_code Step(const Begin& begin);
  /// ERRORS: as Send. Addresses to connect to; a literal in the URL is listed as such, and needs no check.
  Result<std::vector<Tcp::endpoint>> Resolve();
  Status Connect();
  Status Explain(const error_code& error) const;
  /// Calls `use` with the TLS stream or the socket.
  template <class Use>
  auto WithStream(const Use& use);

  const ImageUrl url_;
  const Clock::time_point deadline_;
  const int64_t max_bytes_;
  boost::asio::io_context context_;
  boost::asio::ssl::stream<Tcp::socket> stream_;
  boost::beast::flat_buffer buffer_;
  boost::beast::http::response_parser<boost::beast::http::string_body> parser_;
};

}  // namespace ringside
