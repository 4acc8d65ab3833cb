#include "ws/transport/tls/tls_handshake.h"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <memory>

#include "ws/transport/http/http_connection.h"
#include "ws/transport/net_stream.h"
#include "ws/transport/tls/tls.h"

namespace ringside {
namespace {

using boost::system::error_code;

constexpr int64_t kMostHandshakes = 256;
constexpr std::chrono::milliseconds kMostTime{10'000};

class TlsHandshake : public std::enable_shared_from_this<TlsHandshake> {
 public:
  TlsHandshake(Socket socket, ConnectionTicket ticket, ServerContext& context)
      : context_(context),
        ticket_(std::move(ticket)),
        deadline_(socket.get_executor()),
        stream_(std::move(socket), *context.options.tls->current()) {}

  void Start() {
    silence_.BeSilent(ticket_.address(), [weak = weak_from_this(), executor = stream_.get_executor()] {
      if (const auto self = weak.lock()) boost::asio::post(executor, [self] { self->Cut(); });
    });
    if (context_.handshakes.size() > kMostHandshakes) context_.handshakes.CutOldest();
    boost::asio::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->Shake(); });
  }

 private:
  void Cut() {
    if (!done_) stream_.close();
  }

  void Shake() {
    deadline_.expires_after(std::min(kMostTime, context_.options.request_timeout));
    deadline_.async_wait([weak = weak_from_this()](error_code cancelled) {
      if (const auto self = weak.lock(); self && !cancelled) self->Cut();
    });
    stream_.Handshake([self = shared_from_this()](error_code error) {
      self->done_ = true;
      self->silence_.Speak();
      self->deadline_.cancel();
      if (!error) StartHttpConnection(std::move(self->stream_), std::move(self->ticket_), self->context_);
    });
  }

  ServerContext& context_;
  ConnectionTicket ticket_;
  Timer deadline_;
  NetStream stream_;
  SilentPeer silence_{context_.handshakes};
  bool done_ = false;
};

}  // namespace

void StartTlsHandshake(Socket socket, ConnectionTicket ticket, ServerContext& context) {
  std::make_shared<TlsHandshake>(std::move(socket), std::move(ticket), context)->Start();
}

}  // namespace ringside
