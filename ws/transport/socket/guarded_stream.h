// The stream below a Beast WebSocket: guards it against peers that send many bytes without a message.
// THREAD: the connection's strand.
#pragma once

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/core/role.hpp>
#include <boost/beast/websocket/teardown.hpp>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "ws/transport/net_stream.h"
#include "ws/transport/socket/rate_limit.h"

namespace ringside {

/// Counts reads that delivered nothing to the application: Beast consumes empty frames and answers pings internally
/// without limit. Above the limit it closes the socket. It shows received bytes to the connection before Beast
/// processes them.
class GuardedStream {
 public:
  using next_layer_type = NetStream;
  using executor_type = NetStream::executor_type;

  explicit GuardedStream(NetStream stream) : stream_(std::move(stream)) {}

  executor_type get_executor() noexcept { return stream_.get_executor(); }
  next_layer_type& next_layer() noexcept { return stream_; }
  const next_layer_type& next_layer() const noexcept { return stream_; }

  template <class Buffers, class Handler>
  auto async_read_some(const Buffers& buffers, Handler&& handler) {
    if (!unlimited_ && !fruitless_.Allow()) {
      flooded_ = true;
      stream_.close();
    }
    return boost::asio::async_compose<Handler, void(boost::system::error_code, size_t)>(
        [this, buffers, begun = false](auto& self, boost::system::error_code error = {}, size_t bytes = 0) mutable {
          if (!std::exchange(begun, true)) return stream_.async_read_some(buffers, std::move(self));
          if (!error) Show(buffers, bytes);
          self.complete(error, bytes);
        },
        handler, stream_);
  }
  template <class Buffers, class Handler>
  auto async_write_some(const Buffers& buffers, Handler&& handler) {
    return stream_.async_write_some(buffers, std::forward<Handler>(handler));
  }

  /// Calls `hook` with received bytes before they are processed.
  void OnBytes(std::function<void(std::string_view)> hook) { bytes_ = std::move(hook); }
  /// Notes that the application received data.
  void Progress() { fruitless_.Refill(); }
  /// Notes that a close handshake has started: remaining input is discarded, bounded by the handshake's deadline.
  void Unlimit() { unlimited_ = true; }
  /// Calls `hook` when Beast tears the connection down, which has no timeout in Beast.
  void OnTeardown(std::function<void()> hook) { teardown_ = std::move(hook); }
  void NotifyTeardown() {
    if (teardown_) teardown_();
  }
  bool flooded() const { return flooded_; }

 private:
  template <class Buffers>
  void Show(const Buffers& buffers, size_t bytes) {
    if (!bytes_) return;
    for (auto at = boost::asio::buffer_sequence_begin(buffers); at != boost::asio::buffer_sequence_end(buffers); ++at) {
      const boost::asio::mutable_buffer piece(*at);
      const size_t taken = std::min(bytes, piece.size());
      if (taken > 0) bytes_(std::string_view(static_cast<const char*>(piece.data()), taken));
      bytes -= taken;
    }
  }

  NetStream stream_;
  // A read delivers up to 1,536 bytes here, which is 256 empty frames. An honest silent peer sends an occasional ping.
  RateLimit fruitless_{10, 256};
  std::function<void()> teardown_;
  std::function<void(std::string_view)> bytes_;
  bool unlimited_ = false;
  bool flooded_ = false;
};

template <class Handler>
void async_teardown(boost::beast::role_type role, GuardedStream& stream, Handler&& handler) {
  using boost::beast::websocket::async_teardown;
  stream.NotifyTeardown();
  NetStream& net = stream.next_layer();
  if (!net.encrypted()) return async_teardown(role, net.next_layer(), std::forward<Handler>(handler));
  const auto kept = std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler));
  net.EndWriting([kept](boost::system::error_code error) { (*kept)(error); });
}
inline void teardown(boost::beast::role_type, GuardedStream& stream, boost::system::error_code&) {
  stream.next_layer().close();
}

}  // namespace ringside
