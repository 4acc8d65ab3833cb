#include "ws/transport/socket/connection.h"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/websocket/error.hpp>
#include <boost/beast/websocket/option.hpp>
#include <boost/beast/websocket/stream.hpp>

#include "base/check.h"
#include "ws/transport/arm_timer.h"
#include "ws/transport/http/http_refusals.h"
#include "ws/transport/outbox_writer.h"
#include "ws/transport/socket/face_calls.h"
#include "ws/transport/socket/frame_watch.h"
#include "ws/transport/socket/guarded_stream.h"
#include "ws/transport/socket/socket_activity.h"
#include "ws/transport/socket/socket_input.h"
#include "ws/transport/socket/socket_phase.h"
#include "ws/transport/socket/socket_timers.h"

namespace ringside {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using boost::system::error_code;

constexpr size_t kSocketReadBytes = 64 << 10;
constexpr size_t kMaxReasonBytes = 123;
constexpr uint16_t kLost = 1006;
constexpr uint16_t kEvicted = 4429;
constexpr char kEvictedReason[] = "idle, and its place was needed";
constexpr std::chrono::milliseconds kTeardownTime{1'000};
constexpr std::chrono::milliseconds kRetryTime{50};  // before the workers are asked again

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(NetStream stream, ConnectionTicket ticket, ServerContext& context)
      : context_(context),
        ticket_(std::move(ticket)),
        stream_(GuardedStream(std::move(stream))),
        timers_(stream_.get_executor()),
        watch_(context.MaxMessageBytes(*context.service())),
        input_(context.options.max_message_bytes, context.options.messages_per_second, context.bodies) {}
  ~Connection() { Abandon(); }

  void Start(const UpgradeRequest& request, const SocketRoute& route, HttpRequest asked, std::string request_id) {
    const ServerOptions& options = context_.options;
    SetTimeouts(options.request_timeout);
    stream_.read_message_max(0);  // FrameWatch enforces the limit: the face may still answer before the close
    stream_.auto_fragment(false);
    stream_.text(true);
    const std::string subprotocol = SelectSubprotocol(std::string_view(
        request[http::field::sec_websocket_protocol].data(), request[http::field::sec_websocket_protocol].size()));
    const std::string traceparent = Traceparent(asked.trace);
    stream_.set_option(websocket::stream_base::decorator([=](websocket::response_type& response) {
      response.set(http::field::server, "ringside");
      response.set("x-request-id", request_id);
      response.set("traceparent", traceparent);
      if (!subprotocol.empty()) response.set(http::field::sec_websocket_protocol, subprotocol);
    }));
    stream_.control_callback([this](websocket::frame_type kind, boost::beast::string_view) { OnControl(kind); });
    calls_.Identify(ticket_.Client(asked.principal), asked.trace);
    stream_.async_accept(request, [self = shared_from_this(), route, asked = std::move(asked)](error_code error) {
      if (!error) self->Open(route, asked);
    });
  }

 private:
  using State = SocketPhase::State;

  /// `handshake` bounds the opening handshake and, set again later, the closing one.
  void SetTimeouts(std::chrono::milliseconds handshake) {
    websocket::stream_base::timeout timeout;
    timeout.handshake_timeout = handshake;
    timeout.idle_timeout = websocket::stream_base::none();  // Beast would cut a peer that misses one ping
    timeout.keep_alive_pings = false;
    stream_.set_option(timeout);
  }

  // ---- opening and reading ----------------------------------------------------------------------------------------
  void Open(const SocketRoute& route, const HttpRequest& asked) {
    answers_in_kind_ = route.answers_in_kind;
    const auto outbox = std::make_shared<Outbox>(
        [weak = weak_from_this()] {
          // THREAD: any. Posts to the strand; never enters the face directly.
          if (auto self = weak.lock()) {
            const auto executor = self->stream_.get_executor();
            asio::post(executor, [self = std::move(self)] { self->Flush(); });
          }
        },
        context_.outboxes.Of(asked.principal));
    output_.Open(outbox, asked.principal);
    SetTimeouts(context_.options.close_timeout);
    stream_.next_layer().OnTeardown([this] { OnTeardown(); });
    stream_.next_layer().OnBytes([this](std::string_view bytes) { Watch(bytes); });
    context_.counters.WebSocketOpened();
    CHECK(phase_.Enter(State::kOpen));
    identity_ = IdentityOf(asked);
    identity_.scopes = Scopes::Chat();  // a WebSocket needs only this scope
    member_ = context_.Join({.end = EndOf(outbox),
                             .abandon =
                                 [weak = weak_from_this()] {
                                   if (const auto self = weak.lock()) self->Abandon();
                                 },
                             .identity = identity_,
                             .outbox = outbox});
    calls_.Open(route.open(asked, outbox));
    Deliver();
    // The server may have started to stop since the check.
    if (context_.draining) outbox->Close(1012, "server is stopping");
    if (context_.options.max_connection_age.count() > 0) ArmAge(context_.options.max_connection_age);
    activity_.NoteOpened(std::chrono::steady_clock::now());
    if (context_.options.idle_timeout.count() > 0) ArmIdle();
    ArmPing();
    Read();
    Flush();
    NoteWaiting();
  }

  void Read() {
    stream_.async_read_some(input_.buffer(), kSocketReadBytes,
                            [self = shared_from_this()](error_code error, size_t) { self->OnRead(error); });
  }

  /// Inspects received bytes before Beast processes them.
  void Watch(std::string_view bytes) {
    activity_.NoteBytes(std::chrono::steady_clock::now());
    const uint16_t code = phase_.reads() ? watch_.Read(bytes) : 0;
    if (code == 1009) return RefuseMessage();
    if (code != 0) BeginClose(code, "bad close frame");
  }

  void OnRead(error_code error) {
    if (error) return OnLost(error);
    if (!phase_.reads()) return;  // the close handshake reads from here on
    stream_.next_layer().Progress();
    if (!input_.Charge(identity_.principal)) {
      output_.outbox()->Push(ErrorEvent(TooManyBodies()));
      return BeginClose(1013, "too much waits");
    }
    if (!input_.CountPiece()) return BeginClose(1008, "message in too many pieces");
    if (stream_.is_message_done()) {
      if (!input_.AllowMessage()) return BeginClose(1008, "too many messages");
      if (!ticket_.SetBusy()) return BeginClose(kEvicted, kEvictedReason);
      activity_.NoteMessage(std::chrono::steady_clock::now());
      if (answers_in_kind_) stream_.text(stream_.got_text());
      input_.QueueMessage();
    }
    Deliver();
    // Reads ahead while a message is processed, up to a limit, and not at all while no worker is free.
    input_.SetPaused(!input_.HasRoom() || (!calls_.working() && !input_.empty()));
    if (!input_.paused() && phase_.reads()) Read();
  }

  // ---- working ----------------------------------------------------------------------------------------------------
  /// Hands the opening or the next message to a worker unless one is already working. Without a free worker the message
  /// waits: only the face can parse it, and so only the face could refuse it.
  void Deliver() {
    if (calls_.working() || phase_.finished()) return;
    // The key may have expired or been revoked since the last message.
    if (!context_.access.IsGood(identity_)) return EndOf(output_.outbox())(ServerContext::End::kKeyRevoked);
    const std::shared_ptr<SocketFace> face = calls_.face();
    if (calls_.opening()) {
      calls_.SetOpening(!Submit(0, [face] { face->on_opened(); }));
    } else if (!input_.empty()) {
      const std::shared_ptr<const std::string> message = input_.front();
      if (!Submit(message->size(), [face, message] { face->on_message(*message); })) return;
      input_.Pop();
    }
  }

  bool Submit(size_t bytes, std::function<void()> call) {
    const Status accepted =
        context_.workers.Submit(calls_.client(), bytes, [self = shared_from_this(), call = std::move(call)] {
          if (!self->phase_.finished()) self->calls_.Run(call, *self->output_.outbox());
          const auto executor = self->stream_.get_executor();
          asio::post(executor, [self] { self->OnWorked(); });
        });
    calls_.SetWorking(accepted.ok());
    if (accepted.ok()) return true;
    timers_.retry.expires_after(kRetryTime);
    // The retry timer is the only pending operation: nothing is read meanwhile.
    timers_.retry.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled) self->Deliver();
    });
    return false;
  }

  void OnWorked() {
    calls_.SetWorking(false);
    input_.EndWork(identity_.principal);
    if (phase_.finished()) return NotifyClosed();
    Deliver();
    NoteWaiting();
    if (!input_.HasRoom() || !input_.paused()) return;
    input_.SetPaused(false);
    if (phase_.reads()) Read();
  }

  bool Busy() const { return !input_.empty() || calls_.Busy(); }

  void RefuseMessage() {
    if (!phase_.Enter(State::kRefused)) return;
    output_.outbox()->Push(ErrorEvent(
        InvalidArgument("The message is larger than " + std::to_string(watch_.max_message_bytes()) + " bytes.", "",
                        "message_too_big")));
    output_.outbox()->Close(1009, "message too big");
    // The close handshake reads the rest of the message and discards it.
  }

  void OnControl(websocket::frame_type kind) {
    if (!phase_.writes()) return;
    if (kind == websocket::frame_type::close) {
      close_code_ = PeerCode();
      return;
    }
    if (!controls_.Allow()) output_.outbox()->Close(1008, "too many pings", true);
  }

  /// The close frame has been sent; bounds the time the peer may take to close the TCP connection.
  void OnTeardown() {
    // No close was requested: Beast closed the connection because of a protocol error.
    if (close_code_ == kLost) close_code_ = 1002;
    ArmDeadline(std::min(context_.options.close_timeout, kTeardownTime));
  }

  // ---- writing ----------------------------------------------------------------------------------------------------
  void Flush() {
    if (!phase_.writes()) return;
    if (output_.writing()) {
      NoteWaiting();
      // A close that must not wait for a blocked write has a deadline of its own.
      if (output_.TakeClose()) ArmClose(output_.close()->code);
      return;
    }
    if (output_.close()) return BeginClose(output_.close()->code, output_.close()->reason);
    if (std::optional<std::string> message = output_.outbox()->Take()) {
      output_.Set(std::move(*message));
      return Write();
    }
    if (output_.TakeClose()) return BeginClose(output_.close()->code, output_.close()->reason);
    NoteWaiting();
  }

  void Write() {
    if (!output_.Begin()) return BeginClose(1013, "slow reader");
    stream_.async_write(asio::buffer(output_.written()), [self = shared_from_this()](error_code error, size_t) {
      self->output_.End();
      if (!error) self->Flush();  // an error also ends the pending read
    });
  }

  // ---- ending -----------------------------------------------------------------------------------------------------
  void BeginClose(uint16_t code, std::string_view reason) {
    if (!phase_.Enter(State::kClosing)) return;
    close_code_ = code;
    if (code == 1013) context_.counters.SlowReader();
    ArmClose(code);
    stream_.next_layer().Unlimit();
    reason = reason.substr(0, kMaxReasonBytes);
    const websocket::close_reason close(static_cast<websocket::close_code>(code),
                                        boost::beast::string_view(reason.data(), reason.size()));
    stream_.async_close(close, [self = shared_from_this()](error_code) { self->Finish(self->close_code_); });
  }

  /// Handles the peer's close frame, a timeout or a broken connection.
  void OnLost(error_code error) {
    if (phase_.Is(State::kClosing)) return;  // the close handshake ends it, or its deadline
    if (stream_.next_layer().flooded()) return Finish(1008);
    if (error == websocket::error::closed) return Finish(PeerCode());
    if (error == websocket::error::bad_frame_payload) return Finish(1007);
    if (error == websocket::condition::protocol_violation) return Finish(1002);
    Finish(close_code_);
  }

  /// Returns the code of the peer's close frame.
  uint16_t PeerCode() const {
    const auto code = static_cast<uint16_t>(stream_.reason().code);
    return code == 0 ? 1005 : code;
  }

  /// Cuts the connection unless it ends within `time`; the earliest deadline counts.
  void ArmDeadline(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    if (timers_.deadline.expiry() <= end) return;
    ArmTimer(timers_.deadline, end, weak_from_this(), [](Connection& self) {
      if (self.output_.close() && self.phase_.writes()) {
        self.close_code_ = self.output_.close()->code;
        if (self.close_code_ == 1013) self.context_.counters.SlowReader();
      }
      self.Finish(self.close_code_);
    });
  }

  void ArmAge(std::chrono::milliseconds time) {
    ArmTimer(timers_.age, std::chrono::steady_clock::now() + time, weak_from_this(), [](Connection& self) {
      if (self.phase_.finished()) return;
      // A running answer is not cut because of the socket's age.
      if (self.Busy()) return self.ArmAge(std::chrono::milliseconds(500));
      self.output_.outbox()->Close(1012, "connection too old");
    });
  }

  void ArmIdle() {
    const auto end = activity_.last_message() + context_.options.idle_timeout;
    ArmTimer(timers_.idle, end, weak_from_this(), [](Connection& self) {
      if (self.phase_.finished()) return;
      const auto now = std::chrono::steady_clock::now();
      // A socket with a running answer is not idle; its idle time starts when the answer ends.
      if (self.Busy()) self.activity_.NoteMessage(now);
      if (!self.activity_.HasNoMessageFor(self.context_.options.idle_timeout, now)) return self.ArmIdle();
      self.output_.outbox()->Close(4408, "idle for too long");
    });
  }

  /// A socket without work for one ping interval becomes evictable by its owner's next connection.
  void WatchIdleness(std::chrono::steady_clock::time_point now) {
    if (Busy()) {
      if (!ticket_.SetBusy()) output_.outbox()->Close(kEvicted, kEvictedReason);
    } else if (activity_.HasNoMessageFor(context_.options.ping_interval, now)) {
      ticket_.SetIdle(Evictor());
    } else {
      NoteWaiting();
    }
  }

  /// A socket without a turn waits for its client to send or to read: a full server may evict it.
  void NoteWaiting() {
    if (ticket_.waiting() || !phase_.writes() || Busy()) return;
    ticket_.SetWaiting(Evictor());
  }

  /// Drops the queued output: a peer that does not read would keep its socket open.
  std::function<void()> Evictor() const {
    return [outbox = output_.outbox()] { outbox->Close(kEvicted, kEvictedReason, /*at_once=*/true); };
  }

  /// Sets the time within which the peer must answer a close. An evicted socket has already released its place: if new
  /// connections find no room it is cut at once.
  void ArmClose(uint16_t code) {
    const auto time = context_.options.close_timeout;
    ArmDeadline(code == kEvicted ? std::min(time, kTeardownTime) : time);
    if (code != kEvicted || evicted_.silent()) return;
    evicted_.BeSilent(ticket_.address(), [weak = weak_from_this(), executor = stream_.get_executor()] {
      if (auto self = weak.lock()) asio::post(executor, [self = std::move(self)] { self->Finish(kEvicted); });
    });
  }

  bool PeerIsGone() { return stream_.next_layer().next_layer().PeerIsGone(context_.options.gone_timeout); }

  void ArmPing() {
    const auto end = std::chrono::steady_clock::now() + context_.options.ping_interval;
    ArmTimer(timers_.ping, end, weak_from_this(), [](Connection& self) { self.OnPing(); });
  }

  void OnPing() {
    if (!phase_.writes()) return;
    const auto now = std::chrono::steady_clock::now();
    WatchIdleness(now);
    if (Busy()) activity_.NoteBytes(now);  // reading may have been paused
    if (activity_.IsSilentFor(context_.options.silence_timeout, now) || PeerIsGone()) return Finish(kLost);
    // A ping waits until a blocked answer has been written; one pending ping is enough.
    if (activity_.BeginPing()) {
      stream_.async_ping({}, [self = shared_from_this()](error_code) { self->activity_.EndPing(); });
    }
    ArmPing();
  }

  /// For the end of the server, after strands and workers have stopped.
  void Abandon() {
    Finish(kLost);
    NotifyClosed();
  }

  /// Runs once, on the strand or from Abandon: releases everything and notifies the face, after the worker's current
  /// call.
  void Finish(uint16_t code) {
    if (!phase_.Enter(State::kFinished)) return;
    output_.outbox()->Detach();
    evicted_.Speak();
    context_.counters.WebSocketClosed(code);
    timers_.Cancel();
    stream_.next_layer().next_layer().close();
    input_.DropWaiting();
    if (!calls_.working()) NotifyClosed();
  }

  void NotifyClosed() {
    calls_.Close();
    // Last, because the server's stop ends the remaining members, whose faces have not been notified, after the
    // workers' last call.
    if (const uint64_t member = std::exchange(member_, 0); member != 0) context_.Leave(member);
  }

  ServerContext& context_;
  ConnectionTicket ticket_;
  SilentPeer evicted_{context_.silent};
  websocket::stream<GuardedStream, false> stream_;
  SocketTimers timers_;
  SocketActivity activity_;
  FrameWatch watch_;
  RateLimit controls_{10, 64};
  SocketPhase phase_;
  SocketInput input_;
  OutboxWriter output_{context_.answers};
  FaceCalls calls_;
  Identity identity_;  // identity that opened the connection
  uint64_t member_ = 0;
  uint16_t close_code_ = kLost;
  bool answers_in_kind_ = false;  // from the route
};

}  // namespace

void StartConnection(NetStream stream, ConnectionTicket ticket, ServerContext& context, const UpgradeRequest& request,
                     const SocketRoute& route, HttpRequest asked, std::string request_id) {
  std::make_shared<Connection>(std::move(stream), std::move(ticket), context)
      ->Start(request, route, std::move(asked), std::move(request_id));
}

}  // namespace ringside
