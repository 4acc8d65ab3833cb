// The bytes of one connection: TCP, or TLS over it, as one type, so that what is built on it (Beast's templates above
// all) is compiled once. Everything runs on the connection's strand; at most one read and one write are pending.
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
  /// TLS; nothing may be read or written before Handshake has succeeded.
  NetStream(Socket socket, const TlsContext& context);
  ~NetStream();
  /// While nothing is pending.
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
    // A record for each little piece would be wasteful.
    state_->gathered.resize(std::min(boost::asio::buffer_size(buffers), kRecordBytes));
    boost::asio::buffer_copy(boost::asio::buffer(state_->gathered), buffers);
    TlsWrite(boost::asio::buffer(std::as_const(state_->gathered)), Erased(std::forward<Handler>(handler)));
  }
  /// Reads what the peer still sends, to be thrown away.
  template <class Buffers, class Handler>
  void async_drop_some(const Buffers& buffers, Handler&& handler) {
    tcp().async_read_some(buffers, std::forward<Handler>(handler));
  }

  /// Tells the peer that nothing more comes. A read may be pending. Under TLS `done` is called when the peer has said
  /// so as well, which may be never.
  void EndWriting(std::function<void(error_code)> done);
  /// Whether what was sent has been unacknowledged for so long. A peer that takes nothing acknowledges all the same:
  /// the kernel's TCP_USER_TIMEOUT would take it, and anyone who reads in pieces and slowly, for gone.
  bool PeerIsGone(std::chrono::milliseconds unheard) const;
  /// The peer has ended its sending side or the connection, and nothing that it sent waits to be read. From any thread,
  /// while nothing is pending.
  bool PeerHasLeft() const;
  /// What is pending ends with operation_aborted; the stream can go on.
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
    std::string gathered;  // being written
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
    // What is moved only, in what is copied.
    const auto kept = std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler));
    return [kept](error_code error, size_t bytes) { (*kept)(error, bytes); };
  }
  void TlsRead(boost::asio::mutable_buffer buffer, Completion done);
  void TlsWrite(boost::asio::const_buffer buffer, Completion done);

  std::unique_ptr<State> state_;  // where it is while operations refer to it
};

}  // namespace ringside
