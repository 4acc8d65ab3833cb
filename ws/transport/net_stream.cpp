#include "ws/transport/net_stream.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/ssl/stream.hpp>
#include <cerrno>

#include "ws/transport/tls/tls.h"
#include "ws/transport/tls/tls_context.h"

namespace ringside {

struct NetStream::Tls {
  Tls(Socket& tcp, const TlsContext& certificate) : context(certificate), stream(tcp, context.asio()) {}
  const TlsContext context;  // a copy: the context may be replaced meanwhile
  boost::asio::ssl::stream<Socket&> stream;
};

NetStream::NetStream(Socket socket)
    : state_(new State{std::move(socket), {nullptr, [](Tls* tls) { delete tls; }}, {}}) {}

NetStream::NetStream(Socket socket, const TlsContext& context) : NetStream(std::move(socket)) {
  state_->tls.reset(new Tls(state_->tcp, context));
}

NetStream::~NetStream() = default;
NetStream::NetStream(NetStream&&) noexcept = default;
NetStream& NetStream::operator=(NetStream&&) noexcept = default;

void NetStream::Handshake(std::function<void(error_code)> done) {
  state_->tls->stream.async_handshake(boost::asio::ssl::stream_base::server, std::move(done));
}

bool NetStream::PeerIsGone(std::chrono::milliseconds unheard) const {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  if (getsockopt(state_->tcp.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return false;
  // A peer with a full window answers probes, so only a second unanswered one in a row counts.
  const bool unanswered = info.tcpi_retransmits > 0 || info.tcpi_probes > 1;
  return unanswered && std::chrono::milliseconds(info.tcpi_last_ack_recv) >= unheard;
}

bool NetStream::PeerHasLeft() const {
  char byte = 0;
  const ssize_t read = ::recv(state_->tcp.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return read == 0 || (read < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

void NetStream::TlsRead(boost::asio::mutable_buffer buffer, Completion done) {
  state_->tls->stream.async_read_some(buffer, std::move(done));
}

void NetStream::TlsWrite(boost::asio::const_buffer buffer, Completion done) {
  state_->tls->stream.async_write_some(buffer, std::move(done));
}

void NetStream::EndWriting(std::function<void(error_code)> done) {
  const auto end_tcp = [this] {
    error_code error;
    if (tcp().is_open()) tcp().shutdown(boost::asio::socket_base::shutdown_send, error);
    return error;
  };
  if (!state_->tls) {
    boost::asio::post(get_executor(), [done = std::move(done), error = end_tcp()] { done(error); });
    return;
  }
  // OpenSSL reports data in place of close_notify as an error; it is harmless here.
  state_->tls->stream.async_shutdown([end_tcp, done = std::move(done)](error_code) { done(end_tcp()); });
}

}  // namespace ringside
