#include "clients/bench/http_stream.h"

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <limits>
#include <utility>

#include "clients/bench/sse_reader.h"
#include "clients/wire/transport/io_runtime_impl.h"
#include "clients/wire/transport/wire_stream.h"

namespace ringside::client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr auto kConnectTimeout = std::chrono::seconds(10);
constexpr size_t kMostBodyBytes = 64 * 1024;  // limit of a kept error body

class BeastHttpStream final : public HttpStream, public std::enable_shared_from_this<BeastHttpStream> {
 public:
  BeastHttpStream(asio::io_context& context, const ServerUrl& url, Handlers handlers)
      : url_(url), handlers_(std::move(handlers)), resolver_(context), stream_(context, url) {}

  void Start(const std::string& api_key, const std::string& path, std::string body) {
    request_.version(11);
    request_.method(http::verb::post);
    request_.target(url_.Target(path));
    request_.set(http::field::host, url_.Authority());
    request_.set(http::field::user_agent, "ringside/" RINGSIDE_VERSION);
    request_.set(http::field::accept, "text/event-stream, application/json");
    request_.set(http::field::content_type, "application/json");
    request_.set(http::field::connection, "close");
    if (!api_key.empty()) request_.set(http::field::authorization, "Bearer " + api_key);
    request_.body() = std::move(body);
    request_.prepare_payload();
    parser_.body_limit(std::numeric_limits<uint64_t>::max());
    auto self = shared_from_this();
    resolver_.async_resolve(url_.host, std::to_string(url_.port), [self](error_code error, const auto& found) {
      if (error) return self->Finish("cannot find the host " + self->url_.host);
      self->stream_.next_layer().expires_after(kConnectTimeout);
      self->stream_.next_layer().async_connect(found, [self](error_code connect_error, const tcp::endpoint&) {
        if (connect_error) return self->Finish(connect_error.message());
        self->stream_.Handshake([self](error_code tls_error) {
          if (tls_error) return self->Finish(self->stream_.Explain(tls_error));
          self->Write();
        });
      });
    });
  }

  void Close() override {
    if (std::exchange(closed_, true)) return;
    handlers_ = {};
    resolver_.cancel();
    error_code ignored;
    stream_.next_layer().socket().close(ignored);
  }

 private:
  void Write() {
    stream_.next_layer().expires_never();
    error_code ignored;
    stream_.next_layer().socket().set_option(tcp::no_delay(true), ignored);
    auto self = shared_from_this();
    http::async_write(stream_, request_, [self](error_code error, size_t) {
      if (error) return self->Finish(error.message());
      http::async_read_header(self->stream_, self->incoming_, self->parser_, [self](error_code read_error, size_t) {
        if (read_error) return self->Finish(read_error.message());
        self->end_.status = static_cast<int>(self->parser_.get().result_int());
        const auto type = self->parser_.get()[http::field::content_type];
        self->is_stream_ = self->end_.status < 400 && type.find("event-stream") != type.npos;
        self->Read();
      });
    });
  }

  void Read() {
    if (closed_) return;
    if (parser_.is_done()) return Finish("");
    parser_.get().body().data = piece_.data();
    parser_.get().body().size = piece_.size();
    auto self = shared_from_this();
    http::async_read_some(stream_, incoming_, parser_, [self](error_code error, size_t) {
      if (error == http::error::need_buffer) error = {};
      const size_t got = self->piece_.size() - self->parser_.get().body().size;
      self->Take({self->piece_.data(), got});
      if (error) return self->Finish(error.message());
      self->Read();
    });
  }

  void Take(std::string_view bytes) {
    if (!is_stream_) {
      end_.body += bytes.substr(0, kMostBodyBytes - std::min(kMostBodyBytes, end_.body.size()));
      return;
    }
    for (const std::string& event : events_.Push(bytes)) {
      if (handlers_.on_event) handlers_.on_event(event);
    }
  }

  void Finish(std::string reason) {
    if (std::exchange(closed_, true)) return;
    end_.reason = std::move(reason);
    const auto on_end = std::move(handlers_.on_end);
    handlers_ = {};
    if (on_end) on_end(end_);
  }

  const ServerUrl url_;
  Handlers handlers_;
  tcp::resolver resolver_;
  WireStream stream_;
  http::request<http::string_body> request_;
  http::response_parser<http::buffer_body> parser_;
  beast::flat_buffer incoming_;
  std::array<char, 16384> piece_;
  SseReader events_;
  HttpStreamEnd end_;
  bool is_stream_ = false;
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<HttpStream> HttpStream::Post(IoRuntime& runtime, const ServerUrl& url, const std::string& api_key,
                                             const std::string& path, std::string body, Handlers handlers) {
  auto stream = std::make_shared<BeastHttpStream>(runtime.impl().context, url, std::move(handlers));
  stream->Start(api_key, path, std::move(body));
  return stream;
}

}  // namespace ringside::client
