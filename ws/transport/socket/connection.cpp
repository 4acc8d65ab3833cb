#include "ws/transport/socket/connection.h"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/websocket/error.hpp>
#include <boost/beast/websocket/option.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>
#include <new>
#include <optional>

#include "base/log.h"
#include "ws/transport/http/http_refusals.h"
#include "ws/transport/socket/connection_guard.h"
#include "ws/transport/socket/frame_watch.h"

namespace ringside {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using boost::system::error_code;

constexpr size_t kReadBytes = 64 << 10;
constexpr size_t kKeptBufferBytes = 256 << 10;
constexpr size_t kMaxMessagesWaiting = 256;
constexpr size_t kMaxReasonBytes = 123;
// Reads per message: this many are free; beyond them each must bring a minimum. Where the stream is cut is not the
// peer's choice, so a frame of twice the minimum is accepted even if it arrives in two reads.
constexpr int64_t kFreePieces = 1024;
constexpr int64_t kLeastPieceBytes = 32;
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
        age_(stream_.get_executor()),
        idle_(stream_.get_executor()),
        ping_(stream_.get_executor()),
        deadline_(stream_.get_executor()),
        retry_(stream_.get_executor()),
        watch_(context.options.max_message_bytes),
        messages_(static_cast<double>(context.options.messages_per_second),
                  10.0 * static_cast<double>(context.options.messages_per_second)) {}
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
    client_ = ticket_.Client(asked.principal);
    trace_ = asked.trace;
    stream_.async_accept(request, [self = shared_from_this(), route, asked = std::move(asked)](error_code error) {
      if (!error) self->Open(route, asked);
    });
  }

 private:
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
    outbox_ = std::make_shared<Outbox>(
        [weak = weak_from_this()] {
          // THREAD: any. Posts to the strand; never enters the face directly.
          if (auto self = weak.lock()) {
            const auto executor = self->stream_.get_executor();
            asio::post(executor, [self = std::move(self)] { self->Flush(); });
          }
        },
        context_.outboxes.Of(asked.principal));
    SetTimeouts(context_.options.close_timeout);
    stream_.next_layer().OnTeardown([this] { OnTeardown(); });
    stream_.next_layer().OnBytes([this](std::string_view bytes) { Watch(bytes); });
    context_.counters.WebSocketOpened();
    open_ = true;
    identity_ = IdentityOf(asked);
    identity_.scopes = Scopes::Chat();  // a WebSocket needs only this scope
    member_ = context_.Join({.end = EndOf(outbox_),
                             .abandon =
                                 [weak = weak_from_this()] {
                                   if (const auto self = weak.lock()) self->Abandon();
                                 },
                             .identity = identity_,
                             .outbox = outbox_});
    face_ = std::make_shared<SocketFace>(route.open(asked, outbox_));
    opening_ = face_->on_opened != nullptr;
    Deliver();
    // The server may have started to stop since the check.
    if (context_.draining) outbox_->Close(1012, "server is stopping");
    if (context_.options.max_connection_age.count() > 0) ArmAge(context_.options.max_connection_age);
    last_message_ = heard_ = std::chrono::steady_clock::now();
    if (context_.options.idle_timeout.count() > 0) ArmIdle();
    ArmPing();
    Read();
    Flush();
    NoteWaiting();
  }

  void Read() {
    stream_.async_read_some(buffer_, kReadBytes,
                            [self = shared_from_this()](error_code error, size_t) { self->OnRead(error); });
  }

  /// Inspects received bytes before Beast processes them.
  void Watch(std::string_view bytes) {
    heard_ = std::chrono::steady_clock::now();
    const uint16_t code = closing_ ? 0 : watch_.Read(bytes);
    if (code == 1009) return RefuseMessage();
    if (code != 0) BeginClose(code, "bad close frame");
  }

  void OnRead(error_code error) {
    if (error) return OnLost(error);
    if (closing_ || refused_) return;  // the close handshake reads from here on
    stream_.next_layer().Progress();
    if (!waiting_share_.Hold(identity_.principal, waiting_bytes_ + buffer_.size())) {
      outbox_->Push(ErrorEvent(TooManyBodies()));
      return BeginClose(1013, "too much waits");
    }
    ++pieces_;
    if (pieces_ > kFreePieces + static_cast<int64_t>(buffer_.size()) / kLeastPieceBytes) {
      return BeginClose(1008, "message in too many pieces");
    }
    if (stream_.is_message_done()) {
      if (!messages_.Allow()) return BeginClose(1008, "too many messages");
      waiting_ = false;
      if (!ticket_.SetBusy()) return BeginClose(kEvicted, kEvictedReason);
      last_message_ = std::chrono::steady_clock::now();
      if (answers_in_kind_) stream_.text(stream_.got_text());
      const auto data = buffer_.data();
      messages_waiting_.push_back(
          std::make_shared<const std::string>(static_cast<const char*>(data.data()), data.size()));
      waiting_bytes_ += data.size();
      pieces_ = 0;
      buffer_.consume(buffer_.size());
      // Releases the memory of a large message instead of keeping it for the life of the socket.
      if (buffer_.capacity() > kKeptBufferBytes) buffer_ = boost::beast::flat_buffer();
    }
    Deliver();
    // Reads ahead while a message is processed, up to the size of one message, and not at all while no worker is free.
    paused_ = static_cast<int64_t>(waiting_bytes_) >= context_.options.max_message_bytes ||
              messages_waiting_.size() >= kMaxMessagesWaiting || (!working_ && !messages_waiting_.empty());
    if (!paused_ && !closing_) Read();
  }

  // ---- working ----------------------------------------------------------------------------------------------------
  /// Hands the opening or the next message to a worker unless one is already working. Without a free worker the message
  /// waits: only the face can parse it, and so only the face could refuse it.
  void Deliver() {
    if (working_ || finished_) return;
    // The key may have expired or been revoked since the last message.
    if (!context_.access.IsGood(identity_)) return EndOf(outbox_)(ServerContext::End::kKeyRevoked);
    if (opening_) {
      opening_ = !Submit(0, [face = face_] { face->on_opened(); });
    } else if (!messages_waiting_.empty()) {
      const std::shared_ptr<const std::string> message = messages_waiting_.front();
      if (!Submit(message->size(), [face = face_, message] { face->on_message(*message); })) return;
      messages_waiting_.pop_front();
      waiting_bytes_ -= message->size();
      (void)waiting_share_.Hold(identity_.principal, waiting_bytes_ + buffer_.size());  // never fails: less than before
    }
  }

  bool Submit(size_t bytes, std::function<void()> call) {
    const Status accepted =
        context_.workers.Submit(client_, bytes, [self = shared_from_this(), call = std::move(call)] {
          if (!self->gone_) self->Call(call);
          const auto executor = self->stream_.get_executor();
          asio::post(executor, [self] { self->OnWorked(); });
        });
    working_ = accepted.ok();
    if (working_) return true;
    retry_.expires_after(kRetryTime);
    // The retry timer is the only pending operation: nothing is read meanwhile.
    retry_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled) self->Deliver();
    });
    return false;
  }

  /// THREAD: a worker.
  void Call(const std::function<void()>& call) {
    const LogTrace trace(trace_);
    try {
      call();
    } catch (const std::bad_alloc&) {
      LogError("a message could not be processed: out of memory");
      outbox_->Push(ErrorEvent(Unavailable("The server has no memory left for this request.")));
    } catch (const std::exception& error) {
      LogError("a message caused an exception: {}", TypeOf(error));
      outbox_->Close(1011, "internal error");
    }
  }

  void OnWorked() {
    working_ = false;
    if (finished_) return TellClosed();
    Deliver();
    NoteWaiting();
    const bool room = static_cast<int64_t>(waiting_bytes_) < context_.options.max_message_bytes &&
                      messages_waiting_.size() < kMaxMessagesWaiting;
    if (!room || !std::exchange(paused_, false)) return;
    if (!closing_ && !refused_) Read();
  }

  bool Busy() const { return working_ || opening_ || !messages_waiting_.empty() || (face_->busy && face_->busy()); }

  void RefuseMessage() {
    refused_ = true;
    outbox_->Push(ErrorEvent(
        InvalidArgument("The message is larger than " + std::to_string(context_.options.max_message_bytes) + " bytes.",
                        "", "message_too_big")));
    outbox_->Close(1009, "message too big");
    // The close handshake reads the rest of the message and discards it.
  }

  void OnControl(websocket::frame_type kind) {
    if (!open_ || finished_) return;
    if (kind == websocket::frame_type::close) {
      if (!closing_) close_code_ = PeerCode();
      return;
    }
    if (!controls_.Allow()) outbox_->Close(1008, "too many pings", true);
  }

  /// The close frame has been sent; bounds the time the peer may take to close the TCP connection.
  void OnTeardown() {
    // No close was requested: Beast closed the connection because of a protocol error.
    if (close_code_ == kLost) close_code_ = 1002;
    ArmDeadline(std::min(context_.options.close_timeout, kTeardownTime));
  }

  // ---- writing ----------------------------------------------------------------------------------------------------
  void Flush() {
    if (!open_ || closing_ || finished_) return;
    if (writing_) {
      NoteWaiting();
      // A close that must not wait for a blocked write has a deadline of its own.
      if (const auto close = outbox_->TakeClose()) {
        pending_close_ = close;
        ArmClose(close->code);
      }
      return;
    }
    if (pending_close_) return BeginClose(pending_close_->code, pending_close_->reason);
    if (std::optional<std::string> message = outbox_->Take()) {
      written_ = std::move(*message);
      if (!written_share_.Hold(identity_.principal, written_.size())) return BeginClose(1013, "slow reader");
      writing_ = true;
      stream_.async_write(asio::buffer(written_), [self = shared_from_this()](error_code error, size_t) {
        self->writing_ = false;
        self->written_ = std::string();  // releases the memory of a large message
        self->written_share_.GiveBack();
        if (!error) self->Flush();  // an error also ends the pending read
      });
      return;
    }
    if (const auto close = outbox_->TakeClose()) return BeginClose(close->code, close->reason);
    NoteWaiting();
  }

  // ---- ending -----------------------------------------------------------------------------------------------------
  void BeginClose(uint16_t code, std::string_view reason) {
    if (closing_ || finished_) return;
    closing_ = true;
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
    if (closing_) return;  // the close handshake ends it, or its deadline
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
    if (deadline_set_ && deadline_.expiry() <= end) return;
    deadline_set_ = true;
    deadline_.expires_at(end);
    deadline_.async_wait([weak = weak_from_this()](error_code cancelled) {
      const auto self = weak.lock();
      if (cancelled || !self) return;
      if (self->pending_close_ && !self->closing_) {
        self->close_code_ = self->pending_close_->code;
        if (self->close_code_ == 1013) self->context_.counters.SlowReader();
      }
      self->Finish(self->close_code_);
    });
  }

  void ArmAge(std::chrono::milliseconds time) {
    age_.expires_after(time);
    age_.async_wait([weak = weak_from_this()](error_code cancelled) {
      const auto self = weak.lock();
      if (cancelled || !self || self->finished_) return;
      // A running answer is not cut because of the socket's age.
      if (self->Busy()) return self->ArmAge(std::chrono::milliseconds(500));
      self->outbox_->Close(1012, "connection too old");
    });
  }

  void ArmIdle() {
    idle_.expires_at(last_message_ + context_.options.idle_timeout);
    idle_.async_wait([weak = weak_from_this()](error_code cancelled) {
      const auto self = weak.lock();
      if (cancelled || !self || self->finished_) return;
      const auto now = std::chrono::steady_clock::now();
      // A socket with a running answer is not idle; its idle time starts when the answer ends.
      if (self->Busy()) self->last_message_ = now;
      if (now < self->last_message_ + self->context_.options.idle_timeout) return self->ArmIdle();
      self->outbox_->Close(4408, "idle for too long");
    });
  }

  /// A socket without work for one ping interval becomes evictable by its owner's next connection.
  void WatchIdleness(std::chrono::steady_clock::time_point now) {
    if (Busy()) {
      waiting_ = false;
      if (!ticket_.SetBusy()) outbox_->Close(kEvicted, kEvictedReason);
    } else if (now - last_message_ >= context_.options.ping_interval) {
      ticket_.SetIdle(Evictor());
    } else {
      NoteWaiting();
    }
  }

  /// A socket without a turn waits for its client to send or to read: a full server may evict it.
  void NoteWaiting() {
    if (waiting_ || closing_ || finished_ || Busy()) return;
    waiting_ = true;
    ticket_.SetWaiting(Evictor());
  }

  /// Drops the queued output: a peer that does not read would keep its socket open.
  std::function<void()> Evictor() const {
    return [outbox = outbox_] { outbox->Close(kEvicted, kEvictedReason, /*at_once=*/true); };
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
    ping_.expires_after(context_.options.ping_interval);
    ping_.async_wait([weak = weak_from_this()](error_code cancelled) {
      const auto self = weak.lock();
      if (cancelled || !self || self->finished_ || self->closing_) return;
      const auto now = std::chrono::steady_clock::now();
      self->WatchIdleness(now);
      if (self->Busy()) self->heard_ = now;  // reading may have been paused
      if (now - self->heard_ > self->context_.options.silence_timeout || self->PeerIsGone()) return self->Finish(kLost);
      // A ping waits until a blocked answer has been written; one pending ping is enough.
      if (!std::exchange(self->pinging_, true)) {
        self->stream_.async_ping({}, [self](error_code) { self->pinging_ = false; });
      }
      self->ArmPing();
    });
  }

  /// For the end of the server, after strands and workers have stopped.
  void Abandon() {
    Finish(kLost);
    TellClosed();
  }

  /// Runs once, on the strand or from Abandon: releases everything and notifies the face, after the worker's current
  /// call.
  void Finish(uint16_t code) {
    if (!open_ || std::exchange(finished_, true)) return;
    outbox_->Detach();
    evicted_.Speak();
    context_.counters.WebSocketClosed(code);
    age_.cancel();
    idle_.cancel();
    ping_.cancel();
    deadline_.cancel();
    retry_.cancel();
    stream_.next_layer().next_layer().close();
    gone_ = true;
    messages_waiting_.clear();
    if (!working_) TellClosed();
  }

  void TellClosed() {
    const std::shared_ptr<SocketFace> face = std::exchange(face_, nullptr);
    try {
      if (face != nullptr && face->on_closed) face->on_closed();
    } catch (const std::exception& error) {
      LogError("a face failed to close: {}", TypeOf(error));
    }
    // Last, because the server's stop ends the remaining members, whose faces have not been notified, after the
    // workers' last call.
    if (const uint64_t member = std::exchange(member_, 0); member != 0) context_.Leave(member);
  }

  ServerContext& context_;
  ConnectionTicket ticket_;
  SilentPeer evicted_{context_.silent};
  websocket::stream<GuardedStream, false> stream_;
  Timer age_, idle_, ping_, deadline_, retry_;
  std::chrono::steady_clock::time_point last_message_, heard_;  // heard_: any bytes
  FrameWatch watch_;
  RateLimit messages_;
  RateLimit controls_{10, 64};
  std::shared_ptr<Outbox> outbox_;
  std::shared_ptr<SocketFace> face_;
  Identity identity_;     // identity that opened the connection
  std::string client_;    // charged for workers
  TraceContext trace_;    // from the opening request
  bool opening_ = false;  // the face has not yet been notified of the opening
  std::deque<std::shared_ptr<const std::string>> messages_waiting_;
  size_t waiting_bytes_ = 0;
  std::atomic<bool> gone_{false};  // pending work must not start
  boost::beast::flat_buffer buffer_;
  std::string written_;
  BodyShare waiting_share_{context_.bodies}, written_share_{context_.answers};
  std::optional<Outbox::Closing> pending_close_;
  uint64_t member_ = 0;
  int64_t pieces_ = 0;  // reads of the current message
  uint16_t close_code_ = kLost;
  bool open_ = false, writing_ = false, pinging_ = false, closing_ = false, finished_ = false, deadline_set_ = false;
  bool waiting_ = false;                   // for the client, as reported to its place
  bool working_ = false, paused_ = false;  // working_: a worker has a message; paused_: reads wait for room
  bool refused_ = false;                   // a message was too large: only the close handshake reads
  bool answers_in_kind_ = false;           // from the route
};

}  // namespace

void StartConnection(NetStream stream, ConnectionTicket ticket, ServerContext& context, const UpgradeRequest& request,
                     const SocketRoute& route, HttpRequest asked, std::string request_id) {
  std::make_shared<Connection>(std::move(stream), std::move(ticket), context)
      ->Start(request, route, std::move(asked), std::move(request_id));
}

}  // namespace ringside
