// What the connections of one server share: the options, the service of the moment, who is connected. Owned by the
// Server, outlives every connection; any thread. Also the types of Asio as this server uses them.
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
#include "ws/transport/body_budget.h"
#include "ws/transport/connection_places.h"
#include "ws/transport/failed_keys.h"
#include "ws/transport/server.h"
#include "ws/transport/silent_peers.h"

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

  /// Why the server ends a connection: it stops, and what is queued still goes out; or the key is no longer good.
  enum class End { kStopping, kKeyRevoked };
  /// A WebSocket, or an HTTP answer that is still being made, as the server sees it.
  struct Member {
    std::function<void(End)> end;              // any thread
    std::function<void()> abandon;             // io threads have ended: finish without them
    Identity identity;                         // with which it was opened
    std::shared_ptr<Outbox> outbox = nullptr;  // for what concerns everyone; null = it is not told
  };

  std::shared_ptr<const Service> service() const {
    std::lock_guard lock(mutex_);
    return service_;
  }
  void Publish(std::shared_ptr<const Service> service) {
    std::lock_guard lock(mutex_);
    service_ = std::move(service);
  }

  /// Takes note of a connection; returns the number to Leave with.
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

  /// Keeps what an answer holds for as long as what is returned lives, but not beyond LetGo: an operation that is never
  /// completed, because the io threads have ended, lives until the server is destroyed.
  std::shared_ptr<void> Keep(std::shared_ptr<void> held) {
    if (held == nullptr) return nullptr;
    std::lock_guard lock(mutex_);
    const uint64_t number = ++last_held_;
    held_[number] = std::move(held);
    return {this, [number](ServerContext* self) {
              std::unique_lock guard(self->mutex_);
              const auto released = self->held_.extract(number);
              guard.unlock();  // what is let go of may call anything
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
  std::atomic<bool> closing{false};  // no connection is kept for another request
  std::atomic<bool> draining{false};
  std::atomic<bool> stopping{false};    // what waits or runs is ended
  std::atomic<int64_t> connections{0};  // sockets of either kind
  std::atomic<int64_t> answering{0};    // HTTP requests that were read and are not answered
  std::atomic<int64_t> unread{0};       // connections that are new or have received part of a request
  ConnectionPlaces places;              // of those that were admitted
  FailedKeys failed_keys{[](const std::string& line) { LogWarning("{}", line); }};
  std::atomic<uint64_t> sockets_seen{0};
  SilentPeers handshakes;  // of TLS, begun and not ended
  SilentPeers silent;      // HTTP connections that wait for a request and are not admitted, evicted WebSockets

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

/// Ends what is written from an outbox.
inline std::function<void(ServerContext::End)> EndOf(std::shared_ptr<Outbox> outbox) {
  return [outbox = std::move(outbox)](ServerContext::End why) {
    why == ServerContext::End::kKeyRevoked ? outbox->Close(4401, "the key is no longer good", /*at_once=*/true)
                                           : outbox->Close(1012, "server is stopping");
  };
}

/// The identity that a request was admitted with.
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

/// Counts one socket during its lifetime; handed from the HTTP connection to the WebSocket it becomes. On the
/// connection's strand.
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
        unread_(std::move(other.unread_)) {}
  ConnectionTicket& operator=(ConnectionTicket&&) = delete;
  ~ConnectionTicket() {
    if (context_ == nullptr) return;
    context_->places.GiveBack(place_);
    --context_->connections;
  }
  /// How many sockets were open when this one came, itself included.
  int64_t number() const { return number_; }
  /// Of the peer; see ClientAddress.
  const std::string& address() const { return address_; }
  bool admitted() const { return place_ != 0; }
  /// Set from accept, and again from the first byte of each later request, until the request is complete: a stopping
  /// server waits briefly for it, so that it is answered.
  CountMark& unread() { return unread_; }
  /// Takes one of the places for connections of `principal`, or of the peer's address where no key tells clients apart.
  ConnectionPlaces::Verdict Admit(const std::string& principal) {
    return context_->places.Take(principal.empty() ? "address " + address_ : principal, &place_);
  }
  /// As ConnectionPlaces, for an admitted one.
  void SetIdle(std::function<void()> evict) { context_->places.SetIdle(place_, std::move(evict)); }
  void SetWaiting(std::function<void()> evict) { context_->places.SetWaiting(place_, std::move(evict)); }
  bool SetBusy() { return context_->places.SetBusy(place_); }
  /// Who asks, for a fair share of the workers: the principal, or this socket where no key tells clients apart.
  std::string Client(const std::string& principal) const {
    return principal.empty() ? "socket " + std::to_string(id_) : principal;
  }

 private:
  ServerContext* context_;
  int64_t number_;
  uint64_t id_;  // like no other's
  std::string address_;
  uint64_t place_ = 0;  // 0 = not admitted
  CountMark unread_;
};

}  // namespace ringside
