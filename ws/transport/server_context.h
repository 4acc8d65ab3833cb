// State shared by one server's connections: options, the current service, and the connected members. Owned by the
// Server, outlives every connection. Also the Asio types of this server.
// THREAD: any.
#pragma once

#include <atomic>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/wait_traits.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "base/worker_pool.h"
#include "ws/transport/limits/body_budget.h"
#include "ws/transport/limits/connection_places.h"
#include "ws/transport/limits/failed_keys.h"
#include "ws/transport/limits/silent_peers.h"
#include "ws/transport/server.h"

namespace ringside {

using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;
using Timer = boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                                boost::asio::wait_traits<std::chrono::steady_clock>, Strand>;

struct ServerContext {
  ServerContext(const ServerOptions& server_options, std::shared_ptr<const Service> first,
                TransportCounters& transport_counters)
      : options(server_options),
        access(server_options.access),
        counters(transport_counters),
        places(server_options.max_connections, server_options.connections_of, server_options.eviction_patience),
        service_(std::move(first)) {}

  /// Reason why the server ends a connection: it is stopping, and queued output is still sent; or the key is no longer
  /// valid.
  enum class End { kStopping, kKeyRevoked };
  /// A WebSocket or a running HTTP answer, as seen by the server.
  struct Member {
    std::function<void(End)> end;              // any thread
    std::function<void()> abandon;             // io threads have ended: finish without them
    Identity identity;                         // identity that opened it
    std::shared_ptr<Outbox> outbox = nullptr;  // for announcements; null = gets none
  };

  std::shared_ptr<const Service> service() const {
    std::lock_guard lock(mutex_);
    return service_;
  }
  void Publish(std::shared_ptr<const Service> service) {
    std::lock_guard lock(mutex_);
    service_ = std::move(service);
  }

  /// Largest WebSocket message or HTTP body under `service`.
  int64_t MaxMessageBytes(const Service& service) const {
    return service.max_message_bytes > 0 ? service.max_message_bytes : options.max_message_bytes;
  }

  /// Registers a connection; returns the number for Leave.
  uint64_t Join(Member member) {
    std::lock_guard lock(mutex_);
    members_[++last_member_] = std::move(member);
    return last_member_;
  }
  void Leave(uint64_t number) {
    std::lock_guard lock(mutex_);
    members_.erase(number);
  }
  std::vector<Member> members() const {
    std::lock_guard lock(mutex_);
    std::vector<Member> all;
    for (const auto& [number, member] : members_) all.push_back(member);
    return all;
  }
  int64_t open_sockets() const {
    std::lock_guard lock(mutex_);
    return static_cast<int64_t>(members_.size());
  }

  /// Takes note of a request that waits for a worker or for the end of its call. `give_up` (any thread) answers it
  /// without. Returns the number for EndCall.
  uint64_t BeginCall(std::function<void()> give_up) {
    std::lock_guard lock(mutex_);
    calls_[++last_call_] = std::move(give_up);
    return last_call_;
  }
  void EndCall(uint64_t number) {
    std::lock_guard lock(mutex_);
    calls_.erase(number);
  }
  void GiveUpCalls() {
    std::unique_lock lock(mutex_);
    const auto calls = std::exchange(calls_, {});
    lock.unlock();
    for (const auto& [number, give_up] : calls) give_up();
  }

  /// Keeps the memory of an answer alive as long as the returned handle, but not beyond LetGo: an operation that never
  /// completes, because the io threads have ended, lives until the server is destroyed.
  std::shared_ptr<void> Keep(std::shared_ptr<void> held) {
    if (held == nullptr) return nullptr;
    std::lock_guard lock(mutex_);
    const uint64_t number = ++last_held_;
    held_[number] = std::move(held);
    return {this, [number](ServerContext* self) {
              std::unique_lock guard(self->mutex_);
              const auto released = self->held_.extract(number);
              guard.unlock();  // destructors may call anything
            }};
  }
  void LetGo() {
    std::unique_lock lock(mutex_);
    const auto released = std::exchange(held_, {});
    lock.unlock();
  }

  const ServerOptions options;
  const AccessPolicy access;
  TransportCounters& counters;
  BodyBudget bodies{options.bodies_bytes}, answers{options.answers_bytes};
  OutboxBudget outboxes{options.outboxes_bytes};
  WorkerPool workers{{.threads = options.worker_threads}};
  std::atomic<bool> closing{false};  // no keep-alive
  std::atomic<bool> draining{false};
  std::atomic<bool> stopping{false};    // pending and running work is ended
  std::atomic<int64_t> connections{0};  // sockets of either kind
  std::atomic<int64_t> answering{0};    // HTTP requests read and not yet answered
  std::atomic<int64_t> unread{0};       // connections that are new or have received part of a request
  ConnectionPlaces places;              // of admitted connections
  FailedKeys failed_keys{[](const std::string& line) { LogWarning("{}", line); }};
  std::atomic<uint64_t> sockets_seen{0};
  SilentPeers handshakes;  // running TLS handshakes
  SilentPeers silent;      // HTTP connections that have not been admitted yet, and evicted WebSockets

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Service> service_;
  std::unordered_map<uint64_t, Member> members_;
  uint64_t last_member_ = 0;
  std::unordered_map<uint64_t, std::function<void()>> calls_;
  uint64_t last_call_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<void>> held_;  // by open answers
  uint64_t last_held_ = 0;
};

/// Returns the function that ends output written from an outbox.
inline std::function<void(ServerContext::End)> EndOf(std::shared_ptr<Outbox> outbox) {
  return [outbox = std::move(outbox)](ServerContext::End why) {
    why == ServerContext::End::kKeyRevoked ? outbox->Close(4401, "the key is no longer good", /*at_once=*/true)
                                           : outbox->Close(1012, "server is stopping");
  };
}

/// Returns the identity that admitted a request.
inline Identity IdentityOf(const HttpRequest& request) {
  return {request.principal, request.scopes, request.key_id, ""};
}

/// Holds one increment of a server-wide count between Begin and End. THREAD: the connection's strand.
class CountMark {
 public:
  explicit CountMark(std::atomic<int64_t>& count) : count_(&count) {}
  CountMark(CountMark&& other) noexcept : count_(other.count_), begun_(std::exchange(other.begun_, false)) {}
  CountMark& operator=(CountMark&&) = delete;
  ~CountMark() { End(); }
  void Begin() {
    if (!std::exchange(begun_, true)) ++*count_;
  }
  void End() {
    if (std::exchange(begun_, false)) --*count_;
  }

 private:
  std::atomic<int64_t>* count_;
  bool begun_ = false;
};

/// Counts one socket during its lifetime; passed from the HTTP connection to the WebSocket it becomes.
/// THREAD: the connection's strand.
class ConnectionTicket {
 public:
  ConnectionTicket(ServerContext& context, std::string address)
      : context_(&context),
        number_(++context.connections),
        id_(++context.sockets_seen),
        address_(std::move(address)),
        unread_(context.unread) {
    unread_.Begin();
  }
  ConnectionTicket(ConnectionTicket&& other) noexcept
      : context_(std::exchange(other.context_, nullptr)),
        number_(other.number_),
        id_(other.id_),
        address_(std::move(other.address_)),
        place_(std::exchange(other.place_, 0)),
        waiting_(other.waiting_),
        unread_(std::move(other.unread_)) {}
  ConnectionTicket& operator=(ConnectionTicket&&) = delete;
  ~ConnectionTicket() {
    if (context_ == nullptr) return;
    context_->places.GiveBack(place_);
    --context_->connections;
  }
  /// Number of open sockets when this one was accepted, itself included.
  int64_t number() const { return number_; }
  /// The peer's address; see ClientAddress.
  const std::string& address() const { return address_; }
  bool admitted() const { return place_ != 0; }
  /// Set from accept, and again from the first byte of each later request, until the request is complete: a stopping
  /// server waits briefly for it, so that it is answered.
  CountMark& unread() { return unread_; }
  /// Takes a place for a connection of `principal`, or of the peer's address where no key identifies clients.
  ConnectionPlaces::Verdict Admit(const std::string& principal) {
    return context_->places.Take(principal.empty() ? "address " + address_ : principal, &place_);
  }
  /// As in ConnectionPlaces, for an admitted connection.
  void SetIdle(std::function<void()> evict) { context_->places.SetIdle(place_, std::move(evict)); }
  void SetWaiting(std::function<void()> evict) {
    waiting_ = true;
    context_->places.SetWaiting(place_, std::move(evict));
  }
  bool SetBusy() {
    waiting_ = false;
    return context_->places.SetBusy(place_);
  }
  /// True since SetWaiting, until SetBusy.
  bool waiting() const { return waiting_; }
  /// Identity for fair scheduling of workers: the principal, or this socket where no key identifies clients.
  std::string Client(const std::string& principal) const {
    return principal.empty() ? "socket " + std::to_string(id_) : principal;
  }

 private:
  ServerContext* context_;
  int64_t number_;
  uint64_t id_;  // unique
  std::string address_;
  uint64_t place_ = 0;  // 0 = not admitted
  bool waiting_ = false;
  CountMark unread_;
};

}  // namespace ringside
