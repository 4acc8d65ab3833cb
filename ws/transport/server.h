// Transport: listens, reads HTTP, upgrades to WebSockets and carries messages between sockets and protocol faces. It
// knows nothing of sessions or models. Owned by the App; each connection runs on a strand of its io threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/status.h"
#include "base/worker_pool.h"
#include "ws/transport/auth.h"
#include "ws/transport/http/http.h"
#include "ws/transport/outbox.h"
#include "ws/transport/transport_counters.h"

namespace ringside {

class TlsCertificate;

/// Protocol of one upgraded connection. `on_opened` and `on_message` run on the server's workers, where they may block,
/// one at a time and in order; `on_closed` runs once and last; `busy` runs on the connection's strand at any time.
struct SocketFace {
  std::function<void()> on_opened = nullptr;         // before the first message; may be null
  std::function<void(std::string_view)> on_message;  // one complete message, text or binary
  std::function<void()> on_closed;
  std::function<bool()> busy;  // an answer is running: the socket's age does not end it
};
/// Protocol of the WebSockets on one path.
struct SocketRoute {
  /// Creates the face for an upgraded connection. Runs on the connection's strand and must not block.
  std::function<SocketFace(const HttpRequest& request, std::shared_ptr<Outbox> outbox)> open;
  /// If not null, checks the upgrade; an error is returned as an HTTP response. Runs on a worker.
  std::function<Status(const HttpRequest& request)> admit = nullptr;
  bool answers_in_kind = false;  // a binary message gets binary answers; otherwise every answer is text
};

/// Everything the server offers at one time. Immutable after it is published.
struct Service {
  Router router;
  std::map<std::string, SocketRoute> sockets;  // by path
  std::set<std::string> open_paths;            // served without a key and while draining
  std::set<std::string> probes;                // health checks among the open paths
  std::string starting;                        // not "": reason for a 503 on everything outside the router
  int64_t max_message_bytes = 0;               // in place of ServerOptions::max_message_bytes; 0 = that
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;  // 0 = any free port
  AccessOptions access;
  const TlsCertificate* tls = nullptr;  // outlives the server; null = plain HTTP
  int io_threads = 2;                   // read, write and frame; never wait
  int worker_threads = 2;               // all other work
  int64_t max_connections = 1024;
  /// Connection limit of an owner: a principal, or "address " and an address where there are no keys. Null =
  /// max_connections. Called for every request; must not block.
  std::function<int64_t(const std::string& owner)> connections_of = nullptr;
  // Time after which a full server may evict a connection that waits for its client; see ConnectionPlaces.
  std::chrono::milliseconds eviction_patience{1'000};
  int64_t max_message_bytes = limits::kMaxMessageBytes;  // largest WebSocket message or HTTP body, and read-ahead
  // Bytes of HTTP requests and waiting WebSocket messages (bodies) and of responses being written (answers). 64 KiB of
  // each are not counted; an owner with a key gets half.
  int64_t bodies_bytes = 256 << 20, answers_bytes = 256 << 20;
  int64_t outboxes_bytes = 512 << 20;  // of all outboxes; an owner with a key gets half
  int64_t messages_per_second = 200;   // of one WebSocket, above a burst of ten times this number
  // A whole HTTP request, but for a large body, each part of which has as long (see docs/operating/options.md).
  std::chrono::milliseconds request_timeout{limits::kHandshakeSeconds * 1000};
  std::chrono::milliseconds keep_alive_timeout{75'000};  // between two requests
  // Delay before a request is refused because the server is starting or stopping, so that a proxy that retries at once
  // does so only once in this time.
  std::chrono::milliseconds not_now_time{1'000};
  std::chrono::milliseconds ping_interval{limits::kIdlePingSeconds * 1000};  // keeps NAT and proxy state alive
  // Time without input on a WebSocket, pongs included, or without progress of a streamed answer. Long, because a
  // program may poll its socket only when it has something to send, and may read at the rate of speech.
  std::chrono::milliseconds silence_timeout{600'000};
  // Time without an acknowledgement of sent data: the peer or the path to it is gone. Checked with every ping.
  std::chrono::milliseconds gone_timeout{30'000};
  std::chrono::milliseconds close_timeout{5'000};   // for the peer's answer to a close
  std::chrono::milliseconds max_connection_age{0};  // 0 = no limit
  std::chrono::milliseconds idle_timeout{0};        // of a WebSocket without input and without an answer; 0 = no limit
};

class Server {
 public:
  /// Binds and starts the io threads. Each request is served by the most recently published service.
  /// REQUIRES: `counters` outlives the server.
  /// ERRORS: kInvalidArgument for an invalid address, kIo if the port cannot be bound.
  static Result<std::unique_ptr<Server>> Listen(const ServerOptions& options, std::shared_ptr<const Service> service,
                                                TransportCounters& counters);
  /// Calls Stop first if it was not called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// The listening port.
  uint16_t port() const;
  /// "http://127.0.0.1:8080".
  std::string url() const;
  void Publish(std::shared_ptr<const Service> service);

  /// Closes the connection after every HTTP response from now on, so that a proxy connects to another server.
  void CloseAfterAnswers();
  /// Refuses new WebSockets and all requests except reads with 503, apart from those of Router::AnswerWhileDraining;
  /// sends `announcement` to every open WebSocket.
  void Drain(const std::string& announcement);
  /// Closes every WebSocket with 1012 and cuts every running HTTP answer after the queued output, answers pending
  /// requests with 503, waits at most `patience` for the peers, then cuts the rest and joins the io threads.
  /// ENSURES: on_closed has been called on every face. Sinks may push into outboxes until the server is destroyed.
  void Stop(std::chrono::milliseconds patience);
  /// Closes, with 4401, every WebSocket whose key is no longer valid, and cuts such HTTP answers.
  void CloseRevoked();
  /// As WorkerPool::Submit, for work of a face outside a message.
  /// THREAD: any.
  Status RunOnWorker(const std::string& client, size_t bytes, std::function<void()> call);
  WorkerPoolStats workers() const;
  /// Calls `alive` on an io thread, in turn with the acceptor: proves that neither the acceptor nor all io threads are
  /// blocked. Dropped if the server stops first. `alive` must not block.
  void Ping(std::function<void()> alive);
  /// Open WebSockets and running HTTP answers, including closed ones whose last message a worker is still processing.
  int64_t open_sockets() const;

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ringside
