#include "ws/transport/http/http_stream.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include "base/log.h"
#include "ws/transport/arm_timer.h"
#include "ws/transport/outbox_writer.h"

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
    const auto outbox = std::make_shared<Outbox>(
        [weak = weak_from_this()] {
          if (auto self = weak.lock()) {
            const auto executor = self->socket_.get_executor();
            asio::post(executor, [self = std::move(self)] { self->Flush(); });
          }
        },
        context_.outboxes.Of(asked.principal));
    output_.Open(outbox, asked.principal);
    member_ = context_.Join({.end = EndOf(outbox),
                             .abandon =
                                 [weak = weak_from_this()] {
                                   if (const auto self = weak.lock()) self->Finish();
                                 },
                             .identity = IdentityOf(asked)});
    style.keep_alive = false;
    comments_ = response.content_type == "text/event-stream";
    chunks_ = style.body == AnswerStyle::Body::kChunks;
    // Sends the head at once, so that clients and proxies do not retry.
    output_.Set(WriteAnswer(response, style));
    Write();
    Read();
    ArmPulse();
    // The server may have started to stop since the check.
    if (context_.stopping) outbox->Close(1012, "server is stopping");
    const Status accepted =
        context_.workers.Submit(ticket_.Client(asked.principal), 0,
                                [self = shared_from_this(), stream = response.stream] { self->OpenSource(stream); });
    if (!accepted.ok()) outbox->Close(1012, "server is busy");
  }

 private:
  /// THREAD: a worker.
  void OpenSource(const std::function<std::shared_ptr<void>(std::shared_ptr<Outbox>)>& stream) {
    std::shared_ptr<void> source;
    try {
      source = context_.Keep(stream(output_.outbox()));
    } catch (const std::exception& error) {
      LogError("a stream failed to start: {}", TypeOf(error));
      output_.outbox()->Close(1011, "internal error", true);
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
    if (output_.writing()) {
      WaitForReader();
      // A slow reader gets a deadline for the blocked write.
      (void)output_.TakeClose();
      if (output_.close() && !EndsBody()) ArmDeadline(context_.options.close_timeout);
      return;
    }
    std::string body;
    while (body.size() < kWriteBytes) {
      std::optional<std::string> message = output_.outbox()->Take();
      if (!message) break;
      body += *message;
    }
    AppendChunk(body);
    (void)output_.TakeClose();
    if (EndsBody()) {
      ended_ = true;
      if (chunks_) output_.Append("0\r\n\r\n");
    }
    if (!output_.written().empty() || ended_) return Write();
    if (output_.close()) return CutShort();
  }

  /// True if the body ends in order after the queued messages.
  bool EndsBody() const { return output_.close() && output_.close()->code == Outbox::kEndOfBody; }

  /// Queued output exceeds what the peer has read: if the server is full, the stream may be evicted until a write has
  /// completed.
  void WaitForReader() {
    if (ticket_.waiting()) return;
    ticket_.SetWaiting([weak = weak_from_this(), executor = socket_.get_executor()] {
      if (auto self = weak.lock()) asio::post(executor, [self = std::move(self)] { self->CutShort(); });
    });
  }

  void AppendChunk(std::string_view body) {
    if (body.empty()) return;
    if (chunks_) output_.Append(fmt::format("{:x}\r\n", body.size()));
    output_.Append(body);
    if (chunks_) output_.Append("\r\n");
  }

  void Write() {
    if (!output_.Begin()) {
      context_.counters.SlowReader();
      return Finish();
    }
    said_ = true;
    ArmDeadline(context_.options.silence_timeout);
    asio::async_write(socket_, asio::buffer(output_.written()), [self = shared_from_this()](error_code error, size_t) {
      self->output_.End();
      const bool evicted = self->ticket_.waiting() && !self->ticket_.SetBusy();
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
    if (!output_.close() || output_.close()->code == 1013) context_.counters.SlowReader();
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
      if (!std::exchange(self.said_, false) && !self.output_.writing() && self.comments_) {
        self.AppendChunk(kComment);
        self.Write();
      }
      self.ArmPulse();
    });
  }

  template <class Action>
  void Arm(Timer& timer, std::chrono::milliseconds time, Action action) {
    ArmTimer(timer, Timer::clock_type::now() + time, weak_from_this(), [action](HttpStream& self) {
      if (!self.finished_) action(self);
    });
  }

  /// Runs once, on the strand or after all strands have ended: releases everything.
  void Finish() {
    if (output_.outbox() == nullptr || std::exchange(finished_, true)) return;
    output_.outbox()->Detach();
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
  OutboxWriter output_{context_.answers};
  std::shared_ptr<void> source_;  // producer of the outbox's messages
  std::shared_ptr<void> held_;    // HttpResponse::held
  std::array<char, 1024> read_{};
  size_t read_bytes_ = 0;
  uint64_t member_ = 0;
  bool comments_ = false;  // the body allows comment lines
  bool said_ = false;      // output since the last pulse
  bool chunks_ = true;     // otherwise the body ends with the connection
  bool ended_ = false;     // the end of the body is being written, or has been
  bool finished_ = false;
};

}  // namespace

void StartHttpStream(NetStream socket, ConnectionTicket ticket, ServerContext& context, const HttpRequest& asked,
                     HttpResponse response, AnswerStyle style) {
  std::make_shared<HttpStream>(std::move(socket), std::move(ticket), context)->Start(asked, response, style);
}

}  // namespace ringside
