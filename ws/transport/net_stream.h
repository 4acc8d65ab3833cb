// Byte stream of one connection, TCP or TLS over TCP, as one type so that the code above it (mainly Beast's templates)
// is compiled once. At most one read and one write are pending.
// THREAD: the connection's strand.
#pragma once

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "ws/transport/server_context.h"

namespace ringside {

class TlsContext;

class NetStream {
 public:
  using next_layer_type = Socket;
  using executor_type = Socket::executor_type;
  using error_code = boost::system::error_code;
  using Completion = std::function<void(error_code, size_t)>;

  explicit NetStream(Socket socket);
  /// TLS.
  /// REQUIRES: Handshake succeeds before the first read or write.
  NetStream(Socket socket, const TlsContext& context);
  ~NetStream();
  /// REQUIRES: no operation is pending.
  NetStream(NetStream&&) noexcept;
  NetStream& operator=(NetStream&&) noexcept;

  void Handshake(std::function<void(error_code)> done);

  executor_type get_executor() noexcept { return tcp().get_executor(); }
  bool encrypted() const { return state_->tls != nullptr; }
  next_layer_type& next_layer() noexcept { return tcp(); }
  const next_layer_type& next_layer() const noexcept { return state_->tcp; }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (!state_->tls) return tcp().async_read_some(buffers, std::forward<Handler>(handler));
    TlsRead(FirstOf<boost::asio::mutable_buffer>(buffers), Erased(std::forward<Handler>(handler)));
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (!state_->tls) return tcp().async_write_some(buffers, std::forward<Handler>(handler));
    const auto first = FirstOf<boost::asio::const_buffer>(buffers);
    if (first.size() >= kRecordBytes || first.size() == boost::asio::buffer_size(buffers)) {
      return TlsWrite(first, Erased(std::forward<Handler>(handler)));
    }
    // Small buffers are gathered: a TLS record for each would be wasteful.
    state_->gathered.resize(std::min(boost::asio::buffer_size(buffers), kRecordBytes));
    boost::asio::buffer_copy(boost::asio::buffer(state_->gathered), buffers);
    TlsWrite(boost::asio::buffer(std::as_const(state_->gathered)), Erased(std::forward<Handler>(handler)));
  }
  /// Reads the peer's remaining input and discards it.
  template <class Buffers, class Handler>
  void async_drop_some(const Buffers& buffers, Handler&& handler) {
    tcp().async_read_some(buffers, std::forward<Handler>(handler));
  }

  /// Signals end of stream to the peer; a read may be pending. Under TLS `done` is called after the peer's
  /// close_notify, which may never arrive.
  void EndWriting(std::function<void(error_code)> done);
  /// True if sent data has been unacknowledged for `unheard`. A peer that does not read still acknowledges window
  /// probes; the kernel's TCP_USER_TIMEOUT would treat it, and any slow reader, as gone.
  bool PeerIsGone(std::chrono::milliseconds unheard) const;
  /// True if the peer has closed its sending side or the connection and no received data is left.
  /// THREAD: any.
  /// REQUIRES: no operation is pending.
  bool PeerHasLeft() const;
  /// Pending operations complete with operation_aborted; the stream remains usable.
  void cancel() {
    error_code ignored;
    tcp().cancel(ignored);
  }
  void close() {
    error_code ignored;
    tcp().close(ignored);
  }

 private:
  static constexpr size_t kRecordBytes = 16 << 10;
  struct Tls;
  struct State {
    Socket tcp;
    std::unique_ptr<Tls, void (*)(Tls*)> tls;
    std::string gathered;  // buffers of the current write
  };

  Socket& tcp() { return state_->tcp; }
  template <class Buffer, class Buffers>
  static Buffer FirstOf(const Buffers& buffers) {
    for (auto at = boost::asio::buffer_sequence_begin(buffers); at != boost::asio::buffer_sequence_end(buffers); ++at) {
      if (const Buffer buffer(*at); buffer.size() > 0) return buffer;
    }
    return Buffer();
  }
  template <class Handler>
  static Completion Erased(Handler&& handler) {
    // Wraps a move-only handler for a copyable one.
    const auto kept = std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler));
    return [kept](error_code error, size_t bytes) { (*kept)(error, bytes); };
  }
  void TlsRead(boost::asio::mutable_buffer buffer, Completion done);
  void TlsWrite(boost::asio::const_buffer buffer, Completion done);

  std::unique_ptr<State> state_;  // stable address for pending operations
};

}  // namespace ringside
