#include "clients/wire/transport/socket.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <charconv>
#include <deque>
#include <utility>

#include "clients/wire/transport/io_runtime_impl.h"
#include "clients/wire/transport/wire_stream.h"

namespace ringside::client {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using tcp = asio::ip::tcp;
using boost::system::error_code;

IoRuntime::IoRuntime() : impl_(std::make_unique<Impl>()) {}

IoRuntime::~IoRuntime() {
  impl_->context.stop();
  impl_->thread.join();
}

void IoRuntime::Post(std::function<void()> work) { asio::post(impl_->context, std::move(work)); }

void IoRuntime::After(std::chrono::milliseconds delay, std::function<void()> work) {
  asio::post(impl_->context, [this, delay, work = std::move(work)]() mutable {
    auto timer = std::make_shared<asio::steady_timer>(impl_->context, delay);
    timer->async_wait([timer, work = std::move(work)](error_code error) {
      if (!error) work();
    });
  });
}

bool SocketEnd::worth_retrying() const {
  if (http_status != 0) return http_status == 408 || http_status == 429 || http_status >= 500;
  if (close_code == 4408 || close_code == 4429) return true;
  return close_code < 4000 && close_code != 1008 && close_code != 1009 && close_code != 1002 && close_code != 1007;
}

namespace {

constexpr auto kConnectTimeout = std::chrono::seconds(10);
constexpr size_t kMaxMessageBytes = 64u << 20;

class BeastSocket final : public Socket, public std::enable_shared_from_this<BeastSocket> {
 public:
  BeastSocket(asio::io_context& context, const ServerUrl& url, std::string api_key, Handlers handlers)
      : url_(url),
        api_key_(std::move(api_key)),
        handlers_(std::move(handlers)),
        resolver_(context),
        stream_(context, url) {}

  void Start() {
    auto self = shared_from_this();
    resolver_.async_resolve(url_.host, std::to_string(url_.port), [self](error_code error, const auto& found) {
      if (error) return self->End("cannot find the host " + self->url_.host);
      auto& lowest = beast::get_lowest_layer(self->stream_);
      lowest.expires_after(kConnectTimeout);
      lowest.async_connect(found, [self](error_code connect_error, const tcp::endpoint&) {
        if (connect_error) return self->End(connect_error.message());
        self->stream_.next_layer().Handshake([self](error_code tls_error) {
          if (tls_error) return self->End(self->stream_.next_layer().Explain(tls_error));
          self->Upgrade();
        });
      });
    });
  }

  void Send(std::string frame) override {
    if (closed_) return;
    outgoing_.push_back(std::move(frame));
    if (open_ && outgoing_.size() == 1) Write();
  }

  void Close() override {
    if (closed_) return;
    closed_ = true;
    handlers_ = {};
    auto self = shared_from_this();
    if (open_ && outgoing_.empty()) {
      stream_.async_close(websocket::close_code::normal, [self](error_code) {});
    } else {
      resolver_.cancel();
      error_code ignored;
      beast::get_lowest_layer(stream_).socket().close(ignored);
    }
  }

 private:
  void Upgrade() {
    auto& lowest = beast::get_lowest_layer(stream_);
    lowest.expires_never();
    error_code ignored;
    lowest.socket().set_option(tcp::no_delay(true), ignored);
    websocket::stream_base::timeout timeouts{};
    timeouts.handshake_timeout = kConnectTimeout;
    timeouts.idle_timeout = std::chrono::seconds(60);
    timeouts.keep_alive_pings = true;
    stream_.set_option(timeouts);
    stream_.read_message_max(kMaxMessageBytes);
    stream_.auto_fragment(false);
    stream_.set_option(websocket::stream_base::decorator([key = api_key_](websocket::request_type& request) {
      request.set(beast::http::field::user_agent, "ringside/" RINGSIDE_VERSION);
      if (!key.empty()) request.set(beast::http::field::authorization, "Bearer " + key);
    }));
    auto self = shared_from_this();
    stream_.async_handshake(reply_, url_.Authority(), url_.Target("/responses"), [self](error_code error) {
      if (error) return self->EndRefused(error);
      self->open_ = true;
      self->stream_.text(true);
      if (!self->outgoing_.empty()) self->Write();  // pending frames; from now on Send starts the write
      if (self->handlers_.on_open) self->handlers_.on_open();
      self->Read();
    });
  }

  void Read() {
    if (closed_) return;
    auto self = shared_from_this();
    stream_.async_read(incoming_, [self](error_code error, size_t) {
      if (error) return self->EndRead(error);
      const auto data = self->incoming_.cdata();
      if (self->handlers_.on_message) {
        self->handlers_.on_message({static_cast<const char*>(data.data()), data.size()});
      }
      self->incoming_.consume(self->incoming_.size());
      self->Read();
    });
  }

  void Write() {
    auto self = shared_from_this();
    stream_.async_write(asio::buffer(outgoing_.front()), [self](error_code error, size_t) {
      if (error) return;  // the pending read fails too and reports it
      self->outgoing_.pop_front();
      if (!self->outgoing_.empty() && !self->closed_) self->Write();
    });
  }

  void End(std::string reason) {
    SocketEnd end;
    end.reason = std::move(reason);
    Finish(end);
  }

  void EndRefused(error_code error) {
    SocketEnd end;
    end.reason = error.message();
    if (error == websocket::error::upgrade_declined) {
      end.http_status = static_cast<int>(reply_.result_int());
      end.reason = "the server answered HTTP " + std::to_string(end.http_status);
      const auto header = reply_[beast::http::field::retry_after];
      int64_t seconds = 0;
      std::from_chars(header.data(), header.data() + header.size(), seconds);
      if (seconds > 0 && seconds <= 120) end.retry_after_ms = seconds * 1000;
    }
    Finish(end);
  }

  void EndRead(error_code error) {
    SocketEnd end;
    end.reason = error.message();
    if (error == websocket::error::closed) {
      end.close_code = stream_.reason().code;
      const auto& text = stream_.reason().reason;
      end.reason = text.empty() ? "closed with code " + std::to_string(end.close_code) : std::string(text.c_str());
    }
    Finish(end);
  }

  void Finish(const SocketEnd& end) {
    open_ = false;
    if (closed_) return;
    closed_ = true;
    const auto on_end = std::move(handlers_.on_end);
    handlers_ = {};
    if (on_end) on_end(end);
  }

  const ServerUrl url_;
  const std::string api_key_;
  Handlers handlers_;
  tcp::resolver resolver_;
  websocket::stream<WireStream> stream_;
  websocket::response_type reply_;
  beast::flat_buffer incoming_;
  std::deque<std::string> outgoing_;
  bool open_ = false;
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<Socket> Socket::Open(IoRuntime& runtime, const ServerUrl& url, const std::string& api_key,
                                     Handlers handlers) {
  auto socket = std::make_shared<BeastSocket>(runtime.impl().context, url, api_key, std::move(handlers));
  socket->Start();
  return socket;
}

}  // namespace ringside::client
