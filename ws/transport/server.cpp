#include "ws/transport/server.h"

#include <linux/filter.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "base/log.h"
#include "ws/transport/http/http_connection.h"
#include "ws/transport/limits/client_address.h"
#include "ws/transport/server_context.h"
#include "ws/transport/tls/tls.h"
#include "ws/transport/tls/tls_handshake.h"

namespace ringside {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using Acceptor = asio::basic_socket_acceptor<tcp, Strand>;

// Sockets above the limit that are still refused with a response instead of being cut.
constexpr int64_t kLeastRefusalRoom = 8, kRefusalRoom = 64;
constexpr std::chrono::milliseconds kAcceptPause{50};
constexpr int kCutsWithoutFiles = 16;
constexpr std::chrono::seconds kAcceptLogInterval{10};
// Time without a running request, after the port was closed, before the remaining connections are cut.
constexpr std::chrono::milliseconds kQuiet{200};
// Time after the port was closed in which new connections may send a request and others may finish one.
constexpr std::chrono::milliseconds kRequestQuiet{2'000};

Result<tcp::endpoint> ResolveAddress(const std::string& host, uint16_t port) {
  error_code error;
  std::string name = host;
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  if (name == "localhost") name = "127.0.0.1";
  const asio::ip::address address = asio::ip::make_address(name, error);
  if (error) return InvalidArgument("--host: \"" + host + "\" is no address of this machine; give an IP address");
  return tcp::endpoint(address, port);
}

/// Drops new handshakes on the listening socket; clients retry them and find the port closed. A plain close would reset
/// connections that the kernel has established and the server has not accepted, and a proxy reports those as 502.
void RefuseHandshakes(int listening) {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{.len = 1, .filter = &drop};
  (void)setsockopt(listening, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));  // best effort
}

}  // namespace

struct Server::State {
  State(const ServerOptions& options, std::shared_ptr<const Service> service, TransportCounters& counters)
      : context(options, std::move(service), counters),
        io(options.io_threads),
        acceptor(asio::make_strand(io)),
        pause(acceptor.get_executor()) {}

  Status Open(const tcp::endpoint& endpoint);
  void Accept();
  void OnSocket(error_code error, Socket socket);
  void OnAcceptFailure(const error_code& error);
  void Serve(Socket socket);
  /// Accepts all pending connections, so that their requests are answered, and closes the port.
  void CloseAcceptor();
  void RunThread();

  ServerContext context;  // before io: pending operations refer to it until io is destroyed
  asio::io_context io;
  Acceptor acceptor;
  Timer pause;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::vector<std::thread> threads;
  tcp::endpoint local;
  std::chrono::steady_clock::time_point next_accept_log{};
  bool stopped = false;
};

Status Server::State::Open(const tcp::endpoint& endpoint) {
  error_code error;
  const auto failed = [&](const char* what) {
    const char* advice = error == asio::error::address_in_use ? "; choose another with --port" : "";
    return IoError(fmt::format("cannot {} {}:{}: {}{}", what, endpoint.address().to_string(), endpoint.port(),
                               error.message(), advice));
  };
  if (acceptor.open(endpoint.protocol(), error); error) return failed("open a socket for");
  if (acceptor.set_option(asio::socket_base::reuse_address(true), error); error) return failed("prepare");
  if (acceptor.bind(endpoint, error); error) return failed("bind");
  if (acceptor.listen(asio::socket_base::max_listen_connections, error); error) return failed("listen on");
  local = acceptor.local_endpoint(error);
  return error ? failed("listen on") : Status::Ok();
}

void Server::State::Accept() {
  acceptor.async_accept(asio::make_strand(io),
                        [this](error_code error, Socket socket) { OnSocket(error, std::move(socket)); });
}

void Server::State::OnSocket(error_code error, Socket socket) {
  if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
  if (error) return OnAcceptFailure(error);
  Serve(std::move(socket));
  Accept();
}

void Server::State::Serve(Socket socket) {
  error_code gone;
  const tcp::endpoint peer = socket.remote_endpoint(gone);
  ConnectionTicket ticket(context, gone ? "" : ClientAddress(peer.address()));
  const int64_t most = context.options.max_connections;
  const bool full = ticket.number() > most + std::clamp(most / 8, kLeastRefusalRoom, kRefusalRoom);
  if (!full || context.handshakes.CutOldest() || context.silent.CutOldest()) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    if (context.options.tls != nullptr) {
      StartTlsHandshake(std::move(socket), std::move(ticket), context);
    } else {
      StartHttpConnection(NetStream(std::move(socket)), std::move(ticket), context);
    }
  }
}

void Server::State::CloseAcceptor() {
  std::promise<void> closed;
  asio::post(acceptor.get_executor(), [&] {
    error_code error;
    RefuseHandshakes(acceptor.native_handle());
    acceptor.non_blocking(true, error);
    for (int i = 0; i < asio::socket_base::max_listen_connections && !error; ++i) {
      Socket socket(asio::make_strand(io));
      if (acceptor.accept(socket, error); !error) Serve(std::move(socket));
    }
    acceptor.close(error);
    closed.set_value();
  });
  closed.get_future().wait();
}

void Server::State::OnAcceptFailure(const error_code& error) {
  // Usually out of file descriptors: an immediate retry would spin. Closes silent connections to free some.
  for (int i = 0; i < kCutsWithoutFiles; ++i) {
    if (!context.handshakes.CutOldest() && !context.silent.CutOldest()) break;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now >= next_accept_log) {
    next_accept_log = now + kAcceptLogInterval;
    LogWarning("accept failed: {}; trying again every {} ms", error.message(), kAcceptPause.count());
  }
  pause.expires_after(kAcceptPause);
  pause.async_wait([this](error_code cancelled) {
    if (!cancelled) Accept();
  });
}

void Server::State::RunThread() {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& error) {
      // Exceptions of third-party code end here: the operation that threw has dropped its connection; the others
      // continue.
      LogError("a connection was cut by an exception: {}", error.what());
    }
  }
}

Result<std::unique_ptr<Server>> Server::Listen(const ServerOptions& options, std::shared_ptr<const Service> service,
                                               TransportCounters& counters) {
  ASSIGN_OR_RETURN(const tcp::endpoint endpoint, ResolveAddress(options.host, options.port));
  auto state = std::make_unique<State>(options, std::move(service), counters);
  RETURN_IF_ERROR(state->Open(endpoint));
  state->work.emplace(state->io.get_executor());
  asio::post(state->acceptor.get_executor(), [raw = state.get()] { raw->Accept(); });
  for (int i = 0; i < options.io_threads; ++i) {
    state->threads.emplace_back([raw = state.get()] { raw->RunThread(); });
  }
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() { Stop(std::chrono::milliseconds(0)); }

uint16_t Server::port() const { return state_->local.port(); }

std::string Server::url() const {
  const asio::ip::address address = state_->local.address();
  return fmt::format("{}://{}{}{}:{}", state_->context.options.tls != nullptr ? "https" : "http",
                     address.is_v6() ? "[" : "", address.to_string(), address.is_v6() ? "]" : "", port());
}

void Server::Publish(std::shared_ptr<const Service> service) { state_->context.Publish(std::move(service)); }

void Server::CloseAfterAnswers() { state_->context.closing = true; }

void Server::Drain(const std::string& announcement) {
  CloseAfterAnswers();
  state_->context.draining = true;
  for (const ServerContext::Member& member : state_->context.members()) {
    if (member.outbox != nullptr) member.outbox->Push(announcement);
  }
}

void Server::Stop(std::chrono::milliseconds patience) {
  if (std::exchange(state_->stopped, true)) return;
  ServerContext& context = state_->context;
  context.closing = true;
  context.draining = true;
  context.stopping = true;
  for (const ServerContext::Member& member : context.members()) member.end(ServerContext::End::kStopping);
  state_->CloseAcceptor();
  // Answers every request sent so far: a proxy reports a connection that closes without a response as a 502.
  const auto closed = std::chrono::steady_clock::now(), deadline = closed + patience;
  auto quiet_since = closed;
  bool gave_up = false;
  for (auto now = closed; now < deadline && now < quiet_since + kQuiet; now = std::chrono::steady_clock::now()) {
    const bool comes = context.unread > 0 && now < closed + kRequestQuiet;
    if (comes || context.open_sockets() > 0 || context.answering > 0) quiet_since = now;
    // A call may wait for a disk that does not answer.
    if (now >= closed + patience / 2 && !std::exchange(gave_up, true)) context.GiveUpCalls();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  state_->work.reset();
  state_->io.stop();
  for (std::thread& thread : state_->threads) thread.join();
  context.workers.Stop();
  for (const ServerContext::Member& member : context.members()) member.abandon();
  context.LetGo();
}

void Server::CloseRevoked() {
  for (const ServerContext::Member& member : state_->context.members()) {
    if (!state_->context.access.IsGood(member.identity)) member.end(ServerContext::End::kKeyRevoked);
  }
}

Status Server::RunOnWorker(const std::string& client, size_t bytes, std::function<void()> call) {
  return state_->context.workers.Submit(client, bytes, std::move(call));
}

void Server::Ping(std::function<void()> alive) { asio::post(state_->acceptor.get_executor(), std::move(alive)); }

WorkerPoolStats Server::workers() const { return state_->context.workers.stats(); }

int64_t Server::open_sockets() const { return state_->context.open_sockets(); }

}  // namespace ringside
