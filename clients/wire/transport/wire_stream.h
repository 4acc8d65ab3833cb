// The byte stream of one connection: TCP, or TLS over it, as one type, so that the code on top of it (mostly Beast's
// templates) is compiled once. THREAD: one; at most one read and one write are pending.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/role.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/websocket/teardown.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "clients/wire/transport/server_url.h"

namespace ringside::client {

/// Files with the authorities that a system trusts. OpenSSL knows only the folder of the system that it was built for.
inline const std::vector<std::string> kAuthorityFiles = {
    "/etc/ssl/certs/ca-certificates.crt",  // Debian, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",    // Fedora
    "/etc/ssl/ca-bundle.pem",              // openSUSE
    "/etc/ssl/cert.pem",                   // others
};
/// Trusts the authorities of the first file that exists, if OpenSSL's own folder does not exist. Returns that file, or
/// "" if none was added.
std::string TrustSystem(boost::asio::ssl::context& context, const std::string& own_folder,
                        const std::vector<std::string>& files);

class WireStream {
 public:
  using next_layer_type = boost::beast::tcp_stream;
  using executor_type = next_layer_type::executor_type;
  using error_code = boost::system::error_code;
  using Completion = std::function<void(error_code, size_t)>;

  WireStream(boost::asio::io_context& context, const ServerUrl& url);
  ~WireStream();

  /// After connecting: performs the TLS handshake and verifies the server's certificate; a no-op for a plain
  /// connection.
  void Handshake(std::function<void(error_code)> done);
  /// A sentence for the user if the error is about TLS; otherwise the error's own message.
  std::string Explain(const error_code& error) const;

  bool encrypted() const { return tls_ != nullptr; }
  executor_type get_executor() noexcept { return tcp_.get_executor(); }
  next_layer_type& next_layer() noexcept { return tcp_; }
  const next_layer_type& next_layer() const noexcept { return tcp_; }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (!tls_) return tcp_.async_read_some(buffers, std::forward<Handler>(handler));
    TlsRead(FirstOf<boost::asio::mutable_buffer>(buffers), Erased(std::forward<Handler>(handler)));
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (!tls_) return tcp_.async_write_some(buffers, std::forward<Handler>(handler));
    TlsWrite(FirstOf<boost::asio::const_buffer>(buffers), Erased(std::forward<Handler>(handler)));
  }
  /// Sends close_notify; calls `done` once the server has replied.
  void Shutdown(std::function<void(error_code)> done);

 private:
  struct Tls;

  template <class Buffer, class Buffers>
  static Buffer FirstOf(const Buffers& buffers) {
    for (auto at = boost::asio::buffer_sequence_begin(buffers); at != boost::asio::buffer_sequence_end(buffers); ++at) {
      if (const Buffer buffer(*at); buffer.size() > 0) return buffer;
    }
    return Buffer();
  }
  template <class Handler>
  static Completion Erased(Handler&& handler) {
    // Wraps a move-only handler in a copyable function.
    const auto kept = std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler));
    return [kept](error_code error, size_t bytes) { (*kept)(error, bytes); };
  }
  void TlsRead(boost::asio::mutable_buffer buffer, Completion done);
  void TlsWrite(boost::asio::const_buffer buffer, Completion done);

  boost::beast::tcp_stream tcp_;
  std::unique_ptr<Tls> tls_;  // null = plain
};

template <class Handler>
void async_teardown(boost::beast::role_type role, WireStream& stream, Handler&& handler) {
  using boost::beast::websocket::async_teardown;
  if (!stream.encrypted()) return async_teardown(role, stream.next_layer().socket(), std::forward<Handler>(handler));
  const auto kept = std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler));
  stream.Shutdown([kept](boost::system::error_code error) { (*kept)(error); });
}
inline void teardown(boost::beast::role_type, WireStream& stream, boost::system::error_code& error) {
  stream.next_layer().socket().close(error);
}

}  // namespace ringside::client
