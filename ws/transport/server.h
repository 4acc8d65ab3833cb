// The transport: listens, reads HTTP, upgrades to WebSockets and carries messages between sockets and protocol faces.
// It knows nothing of sessions or models. Owned by the App; its io threads run every connection on a strand of its own.
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

/// One upgraded connection's protocol. `on_opened` and `on_message` are called on the server's workers, where they may
/// block, one at a time and in order; `on_closed` once and last; `busy` on the connection's strand, at any time.
struct SocketFace {
  std::function<void()> on_opened = nullptr;         // before every message; may be null
  std::function<void(std::string_view)> on_message;  // one whole message, text or binary
  std::function<void()> on_closed;
  std::function<bool()> busy;  // an answer is running: the socket is not cut for its age now
};
/// What is spoken over the WebSockets of one path.
struct SocketRoute {
  /// Makes the face of a connection that `request` was upgraded to. On its strand: must not block.
  std::function<SocketFace(const HttpRequest& request, std::shared_ptr<Outbox> outbox)> open;
  /// Not null: what speaks against this upgrade, told as an HTTP answer; nothing has been said then. On a worker.
  std::function<Status(const HttpRequest& request)> admit = nullptr;
  bool answers_in_kind = false;  // behind a binary message binary ones are sent; else every answer is text
};

/// Everything that can be asked of the server at one time. Immutable once published.
struct Service {
  Router router;
  std::map<std::string, SocketRoute> sockets;  // by path
  std::set<std::string> open_paths;            // answered without a key and while draining
  std::set<std::string> probes;                // of these, the health checks
  std::string starting;                        // not "": why everything not in the router is a 503
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;  // 0 = any free one
  AccessOptions access;
  const TlsCertificate* tls = nullptr;  // outlives the server; null = plain HTTP
  int io_threads = 2;                   // read, write and frame; wait for nothing
  int worker_threads = 2;               // do everything else
  int64_t max_connections = 1024;
  /// How many of them an owner may have: a principal, or "address " and an address where there are no keys. Null = all.
  /// Called for every request; must not block.
  std::function<int64_t(const std::string& owner)> connections_of = nullptr;
  // A full server evicts connections that have waited for their clients for this time; see ConnectionPlaces.
  std::chrono::milliseconds eviction_patience{1'000};
  int64_t max_message_bytes = limits::kMaxMessageBytes;  // one WebSocket message or HTTP body
  // HTTP requests being read or answered and waiting WebSocket messages; answers being written. 64 KiB of each are not
  // counted, and an owner with a key has half.
  int64_t bodies_bytes = 256 << 20, answers_bytes = 256 << 20;
  int64_t outboxes_bytes = 512 << 20;  // of all outboxes; an owner with a key has half
  int64_t messages_per_second = 200;   // of one WebSocket, beyond a burst of ten times as many
  // A whole HTTP request, but for a large body, each part of which has as long (see docs/operating/options.md).
  std::chrono::milliseconds request_timeout{limits::kHandshakeSeconds * 1000};
  std::chrono::milliseconds keep_alive_timeout{75'000};                      // between two requests
  // Until a request is refused because the server starts or stops: a proxy that repeats it at once does so once in this
  // time.
  std::chrono::milliseconds not_now_time{1'000};
  std::chrono::milliseconds ping_interval{limits::kIdlePingSeconds * 1000};  // so that nobody on the way forgets it
  // Of a WebSocket from which nothing comes, no answer to a ping either, and of a streamed answer of which nothing is
  // taken: a program may look at its socket only when it has something to say, and read no faster than somebody speaks.
  std::chrono::milliseconds silence_timeout{600'000};
  // What was sent is not even acknowledged: the peer's machine, or the way there, is gone. Looked at with every ping.
  std::chrono::milliseconds gone_timeout{30'000};
  std::chrono::milliseconds close_timeout{5'000};   // until a close must be answered
  std::chrono::milliseconds max_connection_age{0};  // 0 = no limit
  std::chrono::milliseconds idle_timeout{0};        // of a WebSocket that says nothing and has no answer; 0 = no limit
};

class Server {
 public:
  /// Binds and starts the io threads; every request is answered by the service published last. kInvalidArgument for an
  /// address that is none, kIo if the port cannot be had. `counters` outlive the server.
  static Result<std::unique_ptr<Server>> Listen(const ServerOptions& options, std::shared_ptr<const Service> service,
                                                TransportCounters& counters);
  /// Stops first if Stop was not called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// The port listened on.
  uint16_t port() const;
  /// "http://127.0.0.1:8080".
  std::string url() const;
  void Publish(std::shared_ptr<const Service> service);

  /// From now on every HTTP answer closes its connection, so that its client, a proxy for one, makes another one.
  void CloseAfterAnswers();
  /// From now on new WebSockets and requests that are no reads are refused with 503, but for those of
  /// Router::AnswerWhileDraining; `announcement` is sent to every open WebSocket.
  void Drain(const std::string& announcement);
  /// Closes every WebSocket with 1012 (and cuts every running HTTP answer) behind what waits to be written, answers
  /// 503 where an answer is still awaited, waits at most `patience` for the peers' answers, then cuts what is left and
  /// joins the io threads. Every face has been told on_closed when this returns. Sinks may push into outboxes until the
  /// server is destroyed.
  void Stop(std::chrono::milliseconds patience);
  /// Closes, with 4401, every WebSocket that was opened with a key that is no longer good, and cuts such HTTP answers.
  void CloseRevoked();
  /// As WorkerPool::Submit: for what a face does later than in answer to a message. Any thread.
  Status RunOnWorker(const std::string& client, size_t bytes, std::function<void()> call);
  WorkerPoolStats workers() const;
  /// `alive` is called on an io thread, in line with what accepts connections: once it has been, neither that nor every
  /// io thread is stuck. Dropped if the server stops first. Must not block.
  void Ping(std::function<void()> alive);
  /// WebSockets and running HTTP answers open now, or gone while a worker is still at their last message.
  int64_t open_sockets() const;

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ringside
