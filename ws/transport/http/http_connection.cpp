#include "ws/transport/http/http_connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <new>
#include <optional>

#include "base/log.h"
#include "base/request_watch.h"
#include "ws/transport/http/chunk_lines.h"
#include "ws/transport/http/head_check.h"
#include "ws/transport/http/http_refusals.h"
#include "ws/transport/http/http_stream.h"
#include "ws/transport/http/http_text.h"
#include "ws/transport/http/request_head.h"
#include "ws/transport/socket/connection.h"

namespace ringside {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

constexpr size_t kMaxChunkLineBytes = ChunkLines::kMaxExtensionBytes + 64;
// Requests to open paths need no body, and no owner is charged for one.
constexpr int64_t kMaxOpenBodyBytes = 1024;
constexpr size_t kReadBytes = 16 << 10;
// Discarded input after a refusal (kLingerTime).
constexpr size_t kMaxLingerBytes = 16 << 20;
// Minimum rate at which a peer must read a large response; a small one has the time of a request.
constexpr size_t kSlowestBytesASecond = 64 << 10;
// Minimum rate of an upload: this much must arrive within each request timeout.
constexpr int64_t kSlowestUploadBytesASecond = 8 << 10;

Status ParseFailure(const error_code& error) {
  if (error == http::error::body_limit) return TooLarge();
  return BadRequest("This is not a valid HTTP request: " + error.message() + ".");
}

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(NetStream socket, ConnectionTicket ticket, ServerContext& context)
      : socket_(std::move(socket)), ticket_(std::move(ticket)), context_(context), timer_(socket_.get_executor()) {}

  ~HttpConnection() { Leave(); }

  void Start() {
    asio::dispatch(socket_.get_executor(), [self = shared_from_this()] { self->NextRequest(true); });
  }

 private:
  // ---- reading ----------------------------------------------------------------------------------------------------
  void NextRequest(bool first) {
    parser_.emplace();
    parser_->header_limit(2 * RequestHead::kMaxBytes);  // RequestHead enforces the real limit first
    parser_->body_limit(boost::none);                   // set once the path is known
    head_ = RequestHead();
    chunks_.reset();
    header_checked_ = false;
    allowed_bytes_ = 0;
    request_begun_ = buffer_.size() > 0;
    request_digits_ = MakeRequestDigits();
    JoinTrace("");
    allow_origin_.clear();
    Arm(first || request_begun_ ? context_.options.request_timeout : context_.options.keep_alive_timeout);
    WaitInLine();
    if (request_begun_) ticket_.unread().Begin();
    request_begun_ ? Parse() : Read();
  }

  /// An admitted connection may be evicted until a head has arrived; any other until it is admitted.
  void WaitInLine() {
    waiting_ = false;
    if (ticket_.admitted()) return ticket_.SetIdle(Evictor([](const HttpConnection&) { return true; }));
    silence_.BeSilent(ticket_.address(), Evictor([](const HttpConnection& self) { return self.silence_.silent(); }));
  }

  /// Until Work, an admitted connection waits for its client: it may be evicted if the server is full.
  void WaitForClient() {
    if (!ticket_.admitted() || std::exchange(waiting_, true)) return;
    ticket_.SetWaiting(Evictor([](const HttpConnection&) { return true; }));
  }

  /// False if the connection has been evicted and must be cut.
  bool Work() {
    waiting_ = false;
    return !ticket_.admitted() || ticket_.SetBusy();
  }

  /// Cuts the connection if `may_cut` holds on the strand.
  /// THREAD: any.
  template <class MayCut>
  std::function<void()> Evictor(MayCut may_cut) {
    return [weak = weak_from_this(), executor = socket_.get_executor(), may_cut] {
      if (const auto self = weak.lock()) {
        asio::post(executor, [self, may_cut] {
          if (may_cut(*self)) self->Cut();
        });
      }
    };
  }

  void Read() {
    if (header_checked_) WaitForClient();
    reading_ = true;
    socket_.async_read_some(buffer_.prepare(kReadBytes), [self = shared_from_this()](error_code error, size_t bytes) {
      self->reading_ = false;
      self->OnRead(error, bytes);
    });
  }

  void OnRead(error_code error, size_t bytes) {
    if (timed_out_) return Refuse(InvalidArgument("The request did not arrive in time.", "", "request_timeout"));
    if (error) return Cut();
    buffer_.commit(bytes);
    if (!request_begun_) {
      // The request timeout starts with the first byte and is not extended by later bytes of the head.
      request_begun_ = true;
      ticket_.unread().Begin();
      Arm(context_.options.request_timeout);
    }
    Parse();
  }

  /// True once the parser may read the head; otherwise it has been refused or reading continues.
  bool HeadIsWhole() {
    const auto bytes = buffer_.data();
    switch (head_.Read({static_cast<const char*>(bytes.data()), bytes.size()})) {
      case RequestHead::Verdict::kMore:
        Read();
        return false;
      case RequestHead::Verdict::kBad:
        Refuse(BadRequest(head_.trouble()));
        return false;
      case RequestHead::Verdict::kTooLong:
        Refuse(HeadersTooLarge());
        return false;
      case RequestHead::Verdict::kWhole:
        break;
    }
    return true;
  }

  void Parse() {
    if (!parser_->is_header_done() && !HeadIsWhole()) return;
    for (;;) {
      if (parser_->is_header_done() && !header_checked_) {
        header_checked_ = true;
        if (!Work()) return Cut();
        if (Status status = CheckHeader(); !status.ok()) return Refuse(status);
        if (std::optional<HttpResponse> refusal = Admit()) return Delay(std::move(*refusal));
        if (Status status = LimitBody(); !status.ok()) return Refuse(status);
        if (WantsContinue()) return SendContinue();
      }
      if (parser_->is_done()) return Dispatch();
      if (buffer_.size() == 0) return Read();
      const auto bytes = buffer_.data();
      if (chunks_ && !chunks_->Check({static_cast<const char*>(bytes.data()), bytes.size()})) {
        return Refuse(BadRequest(chunks_->trouble()));
      }
      error_code error;
      size_t used = 0;
      try {
        used = parser_->put(buffer_.data(), error);
      } catch (const std::bad_alloc&) {
        return Refuse(OutOfMemory());
      } catch (const std::exception&) {
        // This version of Beast throws for an oversized trailer.
        return Refuse(BadRequest("This is not a valid HTTP request."));
      }
      buffer_.consume(used);
      if (chunks_) chunks_->Consume(used);
      if (!body_share_.Hold(request_.principal, parser_->get().body().size())) return Refuse(TooManyBodies());
      AllowForBody();
      if (error == http::error::need_more) {
        if (buffer_.size() > kMaxChunkLineBytes) return Refuse(BadRequest("A line between chunks is too long."));
        return Read();
      }
      if (error) return Refuse(ParseFailure(error));
    }
  }

  Status CheckHeader() {
    const auto& request = parser_->get();
    // A repeated traceparent is ignored.
    if (request.count("traceparent") == 1) JoinTrace(View(request["traceparent"]));
    ASSIGN_OR_RETURN(target_, CheckHead(request));
    if (request.chunked()) chunks_.emplace();
    return Status::Ok();
  }

  void JoinTrace(std::string_view header) {
    trace_ = ringside::JoinTrace(header, request_digits_);
    request_id_ = "req_" + request_digits_;
    traceparent_ = Traceparent(trace_);
  }

  Status LimitBody() {
    const auto limit = static_cast<uint64_t>(
        open_path_ ? kMaxOpenBodyBytes : service_->router.BodyLimit(request_, context_.options.max_message_bytes));
    if (parser_->content_length().value_or(0) > limit) return TooLarge();
    parser_->body_limit(limit);
    return Status::Ok();
  }

  /// Extends the timeout for each part of the body that arrived fast enough: large bodies get the time they need,
  /// trickling ones do not.
  void AllowForBody() {
    const auto time = context_.options.request_timeout;
    const size_t bytes = parser_->get().body().size();
    if (static_cast<int64_t>(bytes - allowed_bytes_) * 1000 < kSlowestUploadBytesASecond * time.count()) return;
    allowed_bytes_ = bytes;
    Arm(time);
    (void)Work();  // Read resumes waiting; an evicted connection is about to be cut
  }

  bool WantsContinue() const {
    return !parser_->is_done() && parser_->get().version() == 11 && ExpectsContinue(parser_->get());
  }

  void SendContinue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(socket_, asio::buffer(kContinue.data(), kContinue.size()),
                      [self = shared_from_this()](error_code error, size_t) { error ? self->Cut() : self->Parse(); });
  }

  // ---- answering --------------------------------------------------------------------------------------------------
  /// Decides, before a body is read, whether the request is admitted; returns the refusal if not.
  std::optional<HttpResponse> Admit() {
    const auto& message = parser_->get();
    std::string ticket;
    request_ = MakeRequest(message, std::move(target_), &ticket);
    request_.trace = trace_;
    service_ = context_.service();
    AccessRequest access = MakeAccessRequest(message, request_, ticket);
    access.probe = service_->probes.contains(request_.path);
    upgrade_ = access.upgrade;
    if (Status status = context_.access.CheckSource(access); !status.ok()) return ErrorResponse(status);
    if (access.has_origin && context_.access.IsForeignAllowed(access.origin, access.host)) {
      allow_origin_ = access.origin;
    }
    // A CORS preflight carries no key.
    if (request_.method == "OPTIONS" && !allow_origin_.empty()) return PreflightAnswer();

    open_path_ = service_->open_paths.contains(request_.path);
    if (open_path_) return std::nullopt;
    Result<Identity> identity = context_.access.Authenticate(access);
    if (!identity.ok()) return Unauthorized(identity.status(), ShowsKey(access));
    request_.principal = std::move(identity->principal);
    request_.scopes = identity->scopes;
    request_.key_id = std::move(identity->key_id);
    request_.session = std::move(identity->session);
    if (Status status = CheckRoom(); !status.ok()) {
      // A proxy retries at once; this limits it to one retry per delay.
      if (context_.draining || !service_->starting.empty()) refusal_delay_ = context_.options.not_now_time;
      return ErrorResponse(status, service_->starting.empty() ? ScatteredRetryMs() : 0);
    }
    return std::nullopt;
  }

  HttpResponse Unauthorized(const Status& why, bool shows_key) {
    if (shows_key) refusal_delay_ = context_.failed_keys.Count(ticket_.address());
    return UnauthorizedAnswer(why);
  }

  /// Delays the response to a wrong key or to a request that cannot be served now, at most until the server stops. The
  /// connection is evictable meanwhile.
  void Delay(HttpResponse refusal) {
    const auto time = std::exchange(refusal_delay_, std::chrono::milliseconds(0));
    if (time.count() == 0) return Answer(std::move(refusal));
    HttpResponse delayed;
    delayed.later = std::make_shared<LateAnswer>();
    timer_.expires_after(time);
    timer_.async_wait([late = delayed.later, refusal = std::move(refusal)](error_code cancelled) {
      if (!cancelled) late->Give([refusal] { return refusal; });
    });
    Wait(delayed);
  }

  Status CheckRoom() {
    const bool is_work = upgrade_ || !service_->router.IsAnsweredWhileDraining(request_);
    if (context_.draining && is_work) return Unavailable("The server is stopping.");
    if (!service_->starting.empty()) return Unavailable(service_->starting);
    // Answered on the io threads, without a place: metrics matter most when all places are taken.
    if (service_->router.IsAnsweredAtOnce(request_.path)) return Status::Ok();
    const Status admitted = AdmissionStatus(ticket_.Admit(request_.principal));
    if (admitted.ok()) silence_.Speak();
    return admitted;
  }

  void Dispatch() {
    if (!Work()) return Cut();
    MarkAnswering();
    if (upgrade_) return Upgrade();
    request_.body = std::move(parser_->get().body());
    if (service_->router.IsAnsweredAtOnce(request_.path)) return Answer(Route());
    OnWorker([](const HttpConnection& self) { return self.Route(); },
             [](HttpConnection& self, HttpResponse response) { self.Answer(std::move(response)); });
  }

  /// Runs `work` on a worker and `then`, with what it returned, on the strand. In between only GiveUp happens here.
  template <class Work, class Then>
  void OnWorker(Work work, Then then) {
    timer_.expires_at(Timer::time_point::max());
    call_ = context_.BeginCall([weak = weak_from_this(), executor = socket_.get_executor()] {
      if (const auto self = weak.lock()) asio::post(executor, [self] { self->GiveUp(); });
    });
    const Status accepted = context_.workers.Submit(
        ticket_.Client(request_.principal), request_.body.size(), [self = shared_from_this(), work, then] {
          asio::post(self->socket_.get_executor(), [self, then, result = work(std::as_const(*self))]() mutable {
            if (self->EndCall()) then(*self, std::move(result));
          });
        });
    if (!accepted.ok() && EndCall()) Answer(ErrorResponse(accepted));
  }

  /// False if the request has been answered without its call.
  bool EndCall() {
    context_.EndCall(call_);
    return std::exchange(call_, 0) != 0;
  }

  /// Answers a request whose call has not ended: the server stops. The call may still use the request and the socket.
  void GiveUp() {
    if (!EndCall()) return;
    given_up_ = true;
    keep_alive_ = false;
    Write(StoppingAnswer());
  }

  /// The key may have been revoked or have expired while the body arrived or the request waited for a worker.
  bool IsKeyGood() const { return context_.access.IsGood(IdentityOf(request_)); }

  HttpResponse Route() const {
    if (!IsKeyGood()) return RevokedAnswer();
    const RequestWatch watch([this] { return socket_.PeerHasLeft(); });
    return AnswerOrRefuse(request_, [this] {
      HttpResponse response = service_->router.Route(request_);
      response.held = context_.Keep(std::move(response.held));
      if ((response.status == 404 || response.status == 405) && request_.method == "GET" &&
          service_->sockets.contains(request_.path) && request_.scopes.Has(Scopes::Chat())) {
        response = ErrorResponse(
            InvalidArgument("This path serves WebSockets only; send an upgrade request.", "", "upgrade_required"));
        response.headers.emplace_back("Upgrade", "websocket");
      }
      return response;
    });
  }

  void Upgrade() {
    const auto route = service_->sockets.find(request_.path);
    if (route == service_->sockets.end() || !request_.scopes.Has(Scopes::Chat())) {
      return Answer(ErrorResponse(NotFound("There is no WebSocket at " + request_.path + ".")));
    }
    if (!HasSocketKey(parser_->get())) {
      return Refuse(BadRequest("Sec-WebSocket-Key must be 16 bytes in base64."));
    }
    // Data before the upgrade's response, or a body, could hide a second request.
    if (buffer_.size() > 0) return Refuse(BadRequest("Wait for the upgrade."));
    if (!parser_->get().body().empty()) return Refuse(BadRequest("An upgrade request must not have a body."));
    if (!route->second.admit) return OpenIf(Status::Ok(), route->second);
    OnWorker([&route = route->second](const HttpConnection& self) { return AdmitSocket(route, self.request_); },
             [&route = route->second](HttpConnection& self, const Status& status) { self.OpenIf(status, route); });
  }

  void OpenIf(const Status& admitted, const SocketRoute& route) {
    if (!IsKeyGood()) return Answer(RevokedAnswer());
    admitted.ok() ? Open(route) : Answer(ErrorResponse(admitted));
  }

  void Open(const SocketRoute& route) {
    timer_.cancel();
    context_.counters.HttpAnswered(101);
    StartConnection(std::move(socket_), std::move(ticket_), context_, parser_->get(), route, std::move(request_),
                    request_id_);
  }

  /// Refuses a request and closes the connection.
  void Refuse(const Status& status) {
    keep_alive_ = false;
    Answer(ErrorResponse(status));
  }

  void MarkAnswering() {
    answering_.Begin();
    ticket_.unread().End();
  }

  void Answer(HttpResponse response) {
    MarkAnswering();
    request_.body = parser_->get().body() = std::string();
    body_share_.GiveBack();
    Write(std::move(response));
  }

  void Write(HttpResponse response) {
    if (response.later) return Wait(response);
    const auto& request = parser_->get();
    const bool whole = parser_->is_header_done() && parser_->is_done();
    AnswerStyle style;
    keep_alive_ = keep_alive_ && whole && request.keep_alive() && !context_.closing;
    style.keep_alive = keep_alive_;
    style.without_body = parser_->is_header_done() && request.method() == http::verb::head;
    style.request_id = request_id_;
    style.traceparent = traceparent_;
    style.allow_origin = allow_origin_;
    if (response.stream) style.body = AnswerStyle::Body::kChunks;
    if (response.stream && !style.without_body) return Stream(std::move(response), style);
    if (HasBody(response, style) && !answer_share_.Hold(request_.principal, response.body.size())) {
      return Write(ErrorResponse(TooManyAnswers()));
    }
    context_.counters.HttpAnswered(response.status);
    answer_ = WriteHead(response, style);
    body_ = HasBody(response, style) ? std::move(response.body) : std::string();
    if (!given_up_) {
      Arm(context_.options.request_timeout + std::chrono::seconds(body_.size() / kSlowestBytesASecond));
      WaitForClient();
    }
    asio::async_write(socket_, std::array{asio::buffer(answer_), asio::buffer(body_)},
                      [self = shared_from_this()](error_code error, size_t) { self->OnWritten(error); });
  }

  /// The response takes over the connection.
  void Stream(HttpResponse response, AnswerStyle style) {
    timer_.cancel();
    context_.counters.HttpAnswered(response.status);
    if (parser_->get().version() != 11) style.body = AnswerStyle::Body::kUntilClose;
    StartHttpStream(std::move(socket_), std::move(ticket_), context_, request_, std::move(response), style);
  }

  // ---- waiting for an answer that comes later ---------------------------------------------------------------------
  void Wait(const HttpResponse& response) {
    late_ = response.later;
    held_ = response.held;
    late_headers_ = response.headers;
    self_ = shared_from_this();
    member_ = context_.Join({.end =
                                 [late = late_](ServerContext::End why) {
                                   late->Give(why == ServerContext::End::kStopping ? StoppingAnswer : RevokedAnswer);
                                 },
                             .abandon =
                                 [weak = weak_from_this()] {
                                   if (const auto self = weak.lock()) self->Cut();
                                 },
                             .identity = IdentityOf(request_)});
    late_->Await([weak = weak_from_this()] {
      if (auto self = weak.lock()) {
        const auto executor = self->socket_.get_executor();
        asio::post(executor, [self = std::move(self)] { self->OnGiven(); });
      }
    });
    // The server may have started to stop since the check.
    if (context_.stopping) late_->Give(StoppingAnswer);
    WatchPeer();
  }

  /// Reads to detect that the peer leaves. Stops after buffering a limited part of its next request.
  void WatchPeer() {
    if (buffer_.size() >= kReadBytes) return;
    watching_ = true;
    socket_.async_read_some(buffer_.prepare(kReadBytes), [self = shared_from_this()](error_code error, size_t bytes) {
      self->watching_ = false;
      self->buffer_.commit(bytes);
      if (self->given_) return self->AnswerLate();
      error ? self->Cut() : self->WatchPeer();
    });
  }

  void OnGiven() {
    if (late_ == nullptr) return;  // the peer has left
    given_ = true;
    if (!watching_) return AnswerLate();
    socket_.cancel();  // the read's completion continues with the response
  }

  void AnswerLate() {
    given_ = false;
    if (late_ == nullptr) return;
    const std::shared_ptr<HttpConnection> self = std::move(self_);
    const std::function<HttpResponse()> make = std::exchange(late_, nullptr)->Take();
    HttpResponse answer = AnswerOrRefuse(request_, make);
    std::ranges::move(std::exchange(late_headers_, {}), std::back_inserter(answer.headers));
    Answer(std::move(answer));
    held_.reset();
  }

  void Leave() {
    if (member_ != 0) context_.Leave(std::exchange(member_, 0));
  }

  // ---- after the answer -------------------------------------------------------------------------------------------
  void OnWritten(error_code error) {
    Leave();
    answering_.End();
    if (given_up_) return;  // the socket is closed when the server has stopped
    if (error) return Cut();
    answer_.clear();
    body_ = std::string();  // releases the memory of a large body
    answer_share_.GiveBack();
    if (keep_alive_) return NextRequest(false);
    // Closing with unread input would reset the connection and could lose the response.
    Arm(kLingerTime);
    socket_.EndWriting([self = shared_from_this()](error_code failed) {
      if (failed) return self->Cut();
      self->buffer_.clear();
      self->Linger();
    });
  }

  void Linger() {
    socket_.async_drop_some(buffer_.prepare(kReadBytes), [self = shared_from_this()](error_code error, size_t bytes) {
      self->lingered_bytes_ += bytes;
      if (error || self->lingered_bytes_ > kMaxLingerBytes) return self->Cut();
      self->Linger();
    });
  }

  // ---- ending -----------------------------------------------------------------------------------------------------
  /// Cuts the connection after `time`; replaces the previous deadline.
  void Arm(std::chrono::milliseconds time) {
    timer_.expires_after(time);
    timer_.async_wait([weak = weak_from_this()](error_code cancelled) {
      const auto self = weak.lock();
      // A timer that was set again after it expired still reports success: only its current expiry counts.
      if (cancelled || !self || self->timer_.expiry() > std::chrono::steady_clock::now()) return;
      self->OnDeadline();
    });
  }

  void OnDeadline() {
    // A peer that has sent part of a request gets a response.
    if (!reading_ || !request_begun_ || timed_out_) return Cut();
    timed_out_ = true;
    socket_.cancel();
  }

  void Cut() {
    Leave();
    const std::shared_ptr<HttpConnection> self = std::move(self_);
    late_.reset();
    held_.reset();
    timer_.cancel();
    socket_.close();
  }

  NetStream socket_;
  ConnectionTicket ticket_;
  ServerContext& context_;
  Timer timer_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  RequestHead head_;
  std::optional<ChunkedBuffer> chunks_;  // null unless the body is chunked
  bool header_checked_ = false;
  size_t allowed_bytes_ = 0;    // body bytes when the timeout was last extended
  bool waiting_ = false;        // for the client, as reported to its place
  bool reading_ = false;        // reading more of the request
  bool timed_out_ = false;      // the request did not arrive in time
  bool request_begun_ = false;  // its first byte has arrived
  bool keep_alive_ = true;
  bool upgrade_ = false, open_path_ = false;
  std::shared_ptr<const Service> service_;  // the service that admitted the request
  HttpTarget target_;
  HttpRequest request_;
  BodyShare body_share_{context_.bodies}, answer_share_{context_.answers};
  TraceContext trace_;
  std::string request_digits_, request_id_, traceparent_, allow_origin_, answer_, body_;
  std::shared_ptr<LateAnswer> late_;                               // not null: waiting for this response
  std::shared_ptr<void> held_;                                     // HttpResponse::held of the late response
  std::vector<std::pair<std::string, std::string>> late_headers_;  // added to the late response
  std::shared_ptr<HttpConnection> self_;  // keeps the connection alive while no operation is pending
  uint64_t member_ = 0;
  CountMark answering_{context_.answering};
  SilentPeer silence_{context_.silent};
  std::chrono::milliseconds refusal_delay_{0};
  bool watching_ = false;  // a read is pending while waiting
  bool given_ = false;     // the response has arrived and waits for that read to end
  size_t lingered_bytes_ = 0;
  uint64_t call_ = 0;      // of a worker, for this request; 0 = none
  bool given_up_ = false;  // answered without it
};

}  // namespace

void StartHttpConnection(NetStream stream, ConnectionTicket ticket, ServerContext& context) {
  std::make_shared<HttpConnection>(std::move(stream), std::move(ticket), context)->Start();
}

}  // namespace ringside
