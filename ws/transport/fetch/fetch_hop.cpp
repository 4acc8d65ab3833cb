#include "ws/transport/fetch/fetch_hop.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include "base/request_watch.h"

namespace ringside {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr uint32_t kMaxHeadBytes = 16 << 10;
constexpr size_t kReadBytes = 64 << 10;
constexpr std::chrono::milliseconds kWatchInterval{100};  // of the client's presence

}  // namespace

Status BadFetch(const std::string& why) {
  return InvalidArgument("The image's URL could not be fetched: " + why + ".", "", "invalid_image_url");
}

FetchHop::FetchHop(const ImageUrl& url, Clock::time_point deadline, int64_t max_bytes, asio::ssl::context& tls)
    : url_(url), deadline_(deadline), max_bytes_(max_bytes), stream_(context_, tls), buffer_(kReadBytes) {
  parser_.header_limit(kMaxHeadBytes);
  parser_.body_limit(static_cast<uint64_t>(max_bytes));
}

template <class Begin>
FetchHop::error_code FetchHop::Step(const Begin& begin) {
  std::optional<error_code> ended;
  begin([&ended](error_code error, const auto&...) { ended = error; });
  context_.restart();
  while (!ended && Clock::now() < deadline_ && !RequestWatch::ClientLeft()) {
    context_.run_one_until(std::min(deadline_, Clock::now() + kWatchInterval));
  }
  return ended.value_or(asio::error::timed_out);
}

template <class Use>
auto FetchHop::WithStream(const Use& use) {
  return url_.origin.tls ? use(stream_) : use(stream_.next_layer());
}

Status FetchHop::Explain(const error_code& error) const {
  if (error == asio::error::timed_out) return BadFetch("its host does not answer in time");
  if (error == http::error::body_limit) {
    return BadFetch("it has more than " + std::to_string(max_bytes_ >> 20) + " MiB");
  }
  if (error.category() == asio::error::get_ssl_category()) return BadFetch("its host has no valid certificate");
  return BadFetch("the connection to its host failed");
}

Result<std::vector<FetchHop::Tcp::endpoint>> FetchHop::Resolve() {
  const WebOrigin& origin = url_.origin;
  error_code error;
  if (const auto literal = asio::ip::make_address(origin.host, error); !error) {
    return std::vector<Tcp::endpoint>{{literal, origin.port}};
  }
  std::vector<Tcp::endpoint> endpoints;
  Tcp::resolver resolver(context_);
  error = Step([&](auto done) {
    resolver.async_resolve(origin.host, std::to_string(origin.port),
                           [&endpoints, done](error_code failed, const Tcp::resolver::results_type& found) mutable {
                             for (const auto& entry : found) endpoints.push_back(entry.endpoint());
                             done(failed);
                           });
  });
  if (error == asio::error::timed_out) return Explain(error);
  if (error || endpoints.empty()) return BadFetch("its host has no address");
  for (const Tcp::endpoint& endpoint : endpoints) {
    if (!IsPublicAddress(endpoint.address().to_string())) {
      return InvalidArgument("The image's host has an address that is not public; only a listed address may be.", "",
                             "image_url_not_allowed");
    }
  }
  return endpoints;
}

Status FetchHop::Connect() {
  ASSIGN_OR_RETURN(const std::vector<Tcp::endpoint> endpoints, Resolve());
  error_code error = Step([&](auto done) { asio::async_connect(stream_.next_layer(), endpoints, done); });
  if (error) return Explain(error);
  if (!url_.origin.tls) return Status::Ok();
  stream_.set_verify_callback(asio::ssl::host_name_verification(url_.origin.host));
  if (!IsAddressLiteral(url_.origin.host) &&
      SSL_set_tlsext_host_name(stream_.native_handle(), url_.origin.host.c_str()) != 1) {
    return BadFetch("its host has no valid name");
  }
  error = Step([&](auto done) { stream_.async_handshake(asio::ssl::stream_base::client, done); });
  return error ? Explain(error) : Status::Ok();
}

Status FetchHop::Send() {
  RETURN_IF_ERROR(Connect());
  http::request<http::string_body> request(http::verb::get, url_.target, 11);
  request.set(http::field::host, url_.origin.Authority());
  request.set(http::field::user_agent, "ringside");
  request.set(http::field::accept, "image/*");
  request.set(http::field::accept_encoding, "identity");
  request.set(http::field::connection, "close");
  error_code error =
      WithStream([&](auto& stream) { return Step([&](auto done) { http::async_write(stream, request, done); }); });
  if (!error) {
    error = WithStream([&](auto& stream) {
      return Step([&](auto done) { http::async_read_header(stream, buffer_, parser_, done); });
    });
  }
  return error ? Explain(error) : Status::Ok();
}

std::optional<std::string> FetchHop::Redirect() const {
  static constexpr int kRedirects[] = {301, 302, 303, 307, 308};
  if (std::ranges::find(kRedirects, static_cast<int>(parser_.get().result_int())) == std::end(kRedirects)) {
    return std::nullopt;
  }
  return std::string(parser_.get()[http::field::location]);
}

Result<std::string> FetchHop::Body(const ImageFetcher::Charge& charge) {
  const int status = static_cast<int>(parser_.get().result_int());
  if (status != 200) return BadFetch("its host answers with " + std::to_string(status));
  RETURN_IF_ERROR(charge(static_cast<int64_t>(parser_.content_length().value_or(static_cast<uint64_t>(max_bytes_)))));
  while (!parser_.is_done()) {
    const error_code error = WithStream(
        [&](auto& stream) { return Step([&](auto done) { http::async_read_some(stream, buffer_, parser_, done); }); });
    if (error) return Explain(error);
  }
  return std::move(parser_.get().body());
}

}  // namespace ringside
