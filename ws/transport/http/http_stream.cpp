#include "ws/transport/http/http_stream.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include "base/log.h"

namespace ringside {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Queued messages are written together up to about this size.
constexpr size_t kWriteBytes = 64 << 10;
constexpr std::string_view kComment = ": still here\n\n";

class HttpStream : public std::enable_shared_from_this<HttpStream> {
 public:
  HttpStream(NetStream socket, ConnectionTicket ticket, ServerContext& context)
      : context_(context),
        ticket_(std::move(ticket)),
        socket_(std::move(socket)),
        deadline_(socket_.get_executor()),
        pulse_(socket_.get_executor()) {}
  ~HttpStream() { Finish(); }

  void Start(const HttpRequest& asked, const HttpResponse& response, AnswerStyle style) {
    held_ = response.held;
    outbox_ = std::make_shared<Outbox>(
        [weak = weak_from_this()] {
          if (auto self = weak.lock()) {
            const auto executor = self->socket_.get_executor();
            asio::post(executor, [self = std::move(self)] { self->Flush(); });
          }
        },
        context_.outboxes.Of(asked.principal));
    owner_ = asked.principal;
    member_ = context_.Join({.end = EndOf(outbox_),
                             .abandon =
                                 [weak = weak_from_this()] {
                                   if (const auto self = weak.lock()) self->Finish();
                                 },
                             .identity = IdentityOf(asked)});
    style.keep_alive = false;
    comments_ = response.content_type == "text/event-stream";
    chunks_ = style.body == AnswerStyle::Body::kChunks;
    // Sends the head at once, so that clients and proxies do not retry.
    written_ = WriteAnswer(response, style);
    Write();
    Read();
    ArmPulse();
    // The server may have started to stop since the check.
    if (context_.stopping) outbox_->Close(1012, "server is stopping");
    const Status accepted =
        context_.workers.Submit(ticket_.Client(asked.principal), 0,
                                [self = shared_from_this(), stream = response.stream] { self->OpenSource(stream); });
    if (!accepted.ok()) outbox_->Close(1012, "server is busy");
  }

 private:
  /// THREAD: a worker.
  void OpenSource(const std::function<std::shared_ptr<void>(std::shared_ptr<Outbox>)>& stream) {
    std::shared_ptr<void> source;
    try {
      source = context_.Keep(stream(outbox_));
    } catch (const std::exception& error) {
      LogError("a stream failed to start: {}", TypeOf(error));
      outbox_->Close(1011, "internal error", true);
    }
    asio::post(socket_.get_executor(), [self = shared_from_this(), source = std::move(source)]() mutable {
      if (!self->finished_) self->source_ = std::move(source);
    });
  }

  /// Reads only to detect that the peer leaves; no input is expected.
  void Read() {
    socket_.async_read_some(asio::buffer(read_), [self = shared_from_this()](error_code error, size_t bytes) {
      self->read_bytes_ += bytes;
      if (error || self->read_bytes_ > kWriteBytes) return self->Finish();
      self->Read();
    });
  }

  void Flush() {
    if (finished_ || ended_) return;
    if (writing_) {
      WaitForReader();
      // A slow reader gets a deadline for the blocked write.
      if (!close_) close_ = outbox_->TakeClose();
      if (close_ && close_->code != Outbox::kEndOfBody) ArmDeadline(context_.options.close_timeout);
      return;
    }
    std::string body;
    while (body.size() < kWriteBytes) {
      std::optional<std::string> message = outbox_->Take();
      if (!message) break;
      body += *message;
    }
    AppendChunk(body);
    if (!close_) close_ = outbox_->TakeClose();
    if (close_ && close_->code == Outbox::kEndOfBody) {
      ended_ = true;
      if (chunks_) written_ += "0\r\n\r\n";
    }
    if (!written_.empty() || ended_) return Write();
    if (close_) return CutShort();
  }

  /// Queued output exceeds what the peer has read: if the server is full, the stream may be evicted until a write has
  /// completed.
  void WaitForReader() {
    if (std::exchange(waiting_, true)) return;
    ticket_.SetWaiting([weak = weak_from_this(), executor = socket_.get_executor()] {
      if (auto self = weak.lock()) asio::post(executor, [self = std::move(self)] { self->CutShort(); });
    });
  }

  void AppendChunk(std::string_view body) {
    if (body.empty()) return;
    if (chunks_) written_ += fmt::format("{:x}\r\n", body.size());
    written_ += body;
    if (chunks_) written_ += "\r\n";
  }

  void Write() {
    if (!written_share_.Hold(owner_, written_.size())) {
      context_.counters.SlowReader();
      return Finish();
    }
    writing_ = said_ = true;
    ArmDeadline(context_.options.silence_timeout);
    asio::async_write(socket_, asio::buffer(written_), [self = shared_from_this()](error_code error, size_t) {
      self->writing_ = false;
      self->written_ = std::string();  // releases the memory of a large message
      self->written_share_.GiveBack();
      const bool evicted = std::exchange(self->waiting_, false) && !self->ticket_.SetBusy();
      if (error || evicted) return self->Finish();
      self->deadline_.cancel();
      self->ended_ ? self->End() : self->Flush();
    });
  }

  void ArmDeadline(std::chrono::milliseconds time) {
    Arm(deadline_, time, [](HttpStream& self) { self.CutShort(); });
  }

  /// Cuts the connection: the peer does not read, or the body cannot be ended in order.
  void CutShort() {
    if (!close_ || close_->code == 1013) context_.counters.SlowReader();
    Finish();
  }

  void End() {
    socket_.EndWriting([self = shared_from_this()](error_code error) {
      if (error) self->Finish();
    });
    Arm(deadline_, kLingerTime, [](HttpStream& self) { self.Finish(); });
  }

  /// Sends a comment into a silence, which also detects a vanished peer.
  void ArmPulse() {
    Arm(pulse_, context_.options.ping_interval, [](HttpStream& self) {
      if (self.ended_) return;
      if (self.socket_.PeerIsGone(self.context_.options.gone_timeout)) return self.Finish();
      if (!std::exchange(self.said_, false) && !self.writing_ && self.comments_) {
        self.AppendChunk(kComment);
        self.Write();
      }
      self.ArmPulse();
    });
  }

  template <class Action>
  void Arm(Timer& timer, std::chrono::milliseconds time, Action action) {
    timer.expires_after(time);
    timer.async_wait([weak = weak_from_this(), &timer, action](error_code cancelled) {
      const auto self = weak.lock();
      // A timer that was set again after it expired still reports success: only its current expiry counts.
      if (cancelled || !self || self->finished_ || timer.expiry() > std::chrono::steady_clock::now()) return;
      action(*self);
    });
  }

  /// Runs once, on the strand or after all strands have ended: releases everything.
  void Finish() {
    if (outbox_ == nullptr || std::exchange(finished_, true)) return;
    outbox_->Detach();
    context_.Leave(member_);
    source_.reset();
    held_.reset();
    deadline_.cancel();
    pulse_.cancel();
    socket_.close();
  }

  ServerContext& context_;
  ConnectionTicket ticket_;
  NetStream socket_;
  Timer deadline_, pulse_;
  std::shared_ptr<Outbox> outbox_;
  std::shared_ptr<void> source_;  // producer of the outbox's messages
  std::shared_ptr<void> held_;    // HttpResponse::held
  std::optional<Outbox::Closing> close_;
  std::string written_, owner_;
  BodyShare written_share_{context_.answers};
  std::array<char, 1024> read_{};
  size_t read_bytes_ = 0;
  uint64_t member_ = 0;
  bool comments_ = false;  // the body allows comment lines
  bool said_ = false;      // output since the last pulse
  bool waiting_ = false;   // for the peer to read, as reported to its place
  bool chunks_ = true, writing_ = false, ended_ = false, finished_ = false;
};

}  // namespace

void StartHttpStream(NetStream socket, ConnectionTicket ticket, ServerContext& context, const HttpRequest& asked,
                     HttpResponse response, AnswerStyle style) {
  std::make_shared<HttpStream>(std::move(socket), std::move(ticket), context)->Start(asked, response, style);
}

}  // namespace ringside
