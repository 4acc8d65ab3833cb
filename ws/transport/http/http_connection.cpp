#include "ws/transport/http/http_connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <optional>

#include "base/request_watch.h"
#include "ws/transport/arm_timer.h"
#include "ws/transport/http/head_check.h"
#include "ws/transport/http/http_exchange.h"
#include "ws/transport/http/http_phase.h"
#include "ws/transport/http/http_refusals.h"
#include "ws/transport/http/http_stream.h"
#include "ws/transport/http/http_text.h"
#include "ws/transport/socket/connection.h"

namespace ringside {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// Requests to open paths need no body, and no owner is charged for one.
constexpr int64_t kMaxOpenBodyBytes = 1024;
constexpr size_t kHttpReadBytes = 16 << 10;
// Discarded input after a refusal (kLingerTime): the rest of a request, whose client reads the answer after it.
constexpr size_t kMaxLingerBytes = limits::kImageRequestBytes;
// Minimum rate at which a peer must read a large response; a small one has the time of a request.
constexpr size_t kSlowestBytesASecond = 64 << 10;

/// An answer that is being written.
struct WrittenAnswer {
  explicit WrittenAnswer(BodyBudget& budget) : share(budget) {}

  std::string head, body;
  BodyShare share;
};

/// An answer that comes later.
struct PendingAnswer {
  std::shared_ptr<LateAnswer> late;                          // not null: waiting for it
  std::shared_ptr<void> held;                                // HttpResponse::held
  std::vector<std::pair<std::string, std::string>> headers;  // added to the answer
  std::shared_ptr<void> owner;                               // keeps the connection alive while no operation is pending
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(NetStream socket, ConnectionTicket ticket, ServerContext& context)
      : socket_(std::move(socket)), ticket_(std::move(ticket)), context_(context), timer_(socket_.get_executor()) {}

  ~HttpConnection() {
    EndCall();  // an open call's function holds the strand, which must not outlive its io_context
    Leave();
  }

  void Start() {
    asio::dispatch(socket_.get_executor(), [self = shared_from_this()] { self->NextRequest(true); });
  }

 private:
  using State = HttpPhase::State;

  // ---- reading ----------------------------------------------------------------------------------------------------
  void NextRequest(bool first) {
    exchange_.emplace();
    phase_.Enter(State::kIdle);
    const bool begun = buffer_.size() > 0 && phase_.Enter(State::kReceiving);
    Arm(first || begun ? context_.options.request_timeout : context_.options.keep_alive_timeout);
    WaitInLine();
    if (begun) ticket_.unread().Begin();
    begun ? Parse() : Read();
  }

  /// An admitted connection may be evicted until a head has arrived; any other until it is admitted.
  void WaitInLine() {
    if (ticket_.admitted()) return ticket_.SetIdle(Evictor([](const HttpConnection&) { return true; }));
    silence_.BeSilent(ticket_.address(), Evictor([](const HttpConnection& self) { return self.silence_.silent(); }));
  }

  /// Until Work, an admitted connection waits for its client: it may be evicted if the server is full.
  void WaitForClient() {
    if (!ticket_.admitted() || ticket_.waiting()) return;
    ticket_.SetWaiting(Evictor([](const HttpConnection&) { return true; }));
  }

  /// False if the connection has been evicted and must be cut.
  bool Work() { return !ticket_.admitted() || ticket_.SetBusy(); }

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
    if (exchange_->reader.checked()) WaitForClient();
    socket_.async_read_some(
        buffer_.prepare(kHttpReadBytes),
        [self = shared_from_this()](error_code error, size_t bytes) { self->OnRead(error, bytes); });
  }

  void OnRead(error_code error, size_t bytes) {
    if (phase_.Is(State::kTimedOut)) {
      return Refuse(InvalidArgument("The request did not arrive in time.", "", "request_timeout"));
    }
    if (error) return Cut();
    buffer_.commit(bytes);
    if (phase_.Enter(State::kReceiving)) {
      // The request timeout starts with the first byte and is not extended by later bytes of the head.
      ticket_.unread().Begin();
      Arm(context_.options.request_timeout);
    }
    Parse();
  }

  std::string_view received() const {
    const auto bytes = buffer_.data();
    return {static_cast<const char*>(bytes.data()), bytes.size()};
  }

  /// True once the parser may read the head; otherwise it has been refused or reading continues.
  bool HeadIsWhole() {
    switch (exchange_->reader.ReadHead(received())) {
      case RequestHead::Verdict::kMore:
        Read();
        return false;
      case RequestHead::Verdict::kBad:
        Refuse(BadRequest(exchange_->reader.trouble()));
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
    RequestReader& reader = exchange_->reader;
    if (!reader.has_head() && !HeadIsWhole()) return;
    for (;;) {
      if (reader.BeginCheck()) {
        if (!Work()) return Cut();
        if (Status status = CheckHeader(); !status.ok()) return Refuse(status);
        if (std::optional<HttpResponse> refusal = Admit()) return Delay(std::move(*refusal));
        if (Status status = reader.LimitBody(BodyLimit()); !status.ok()) return Refuse(status);
        if (reader.WantsContinue()) return SendContinue();
      }
      if (reader.complete()) return Dispatch();
      if (buffer_.size() == 0) return Read();
      error_code error;
      const Result<size_t> used = reader.Parse(received(), error);
      if (!used.ok()) return Refuse(used.status());
      buffer_.consume(*used);
      if (!body_share_.Hold(exchange_->request.principal, reader.body_bytes())) return Refuse(TooManyBodies());
      AllowForBody();
      if (error == http::error::need_more) {
        if (buffer_.size() > RequestReader::kMaxChunkLineBytes) {
          return Refuse(BadRequest("A line between chunks is too long."));
        }
        return Read();
      }
      if (error) return Refuse(ParseFailure(error));
    }
  }

  Status CheckHeader() {
    const HeadMessage& message = exchange_->reader.message();
    // A repeated traceparent is ignored.
    if (message.count("traceparent") == 1) exchange_->ids.Join(View(message["traceparent"]));
    ASSIGN_OR_RETURN(exchange_->target, exchange_->reader.Check());
    return Status::Ok();
  }

  uint64_t BodyLimit() const {
    if (exchange_->open_path) return kMaxOpenBodyBytes;
    const Service& service = *exchange_->service;
    return static_cast<uint64_t>(service.router.BodyLimit(exchange_->request, context_.MaxMessageBytes(service)));
  }

  /// Extends the timeout for each part of the body that arrived fast enough: large bodies get the time they need,
  /// trickling ones do not.
  void AllowForBody() {
    const auto time = context_.options.request_timeout;
    if (!exchange_->reader.KeepsPace(time)) return;
    Arm(time);
    (void)Work();  // Read resumes waiting; an evicted connection is about to be cut
  }

  void SendContinue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    phase_.Enter(State::kContinuing);
    asio::async_write(socket_, asio::buffer(kContinue.data(), kContinue.size()),
                      [self = shared_from_this()](error_code error, size_t) {
                        if (error) return self->Cut();
                        self->phase_.Enter(State::kReceiving);
                        self->Parse();
                      });
  }

  // ---- answering --------------------------------------------------------------------------------------------------
  /// Decides, before a body is read, whether the request is admitted; returns the refusal if not.
  std::optional<HttpResponse> Admit() {
    HttpExchange& exchange = *exchange_;
    const HeadMessage& message = exchange.reader.message();
    HttpRequest& request = exchange.request;
    std::string ticket;
    request = MakeRequest(message, std::move(exchange.target), &ticket);
    request.address = ticket_.address();
    request.trace = exchange.ids.trace();
    exchange.service = context_.service();
    AccessRequest access = MakeAccessRequest(message, request, ticket);
    access.probe = exchange.service->probes.contains(request.path);
    exchange.upgrade = access.upgrade;
    if (Status status = context_.access.CheckSource(access); !status.ok()) return ErrorResponse(status);
    if (access.has_origin && context_.access.IsForeignAllowed(access.origin, access.host)) {
      exchange.allow_origin = access.origin;
    }
    // A CORS preflight carries no key.
    if (request.method == "OPTIONS" && !exchange.allow_origin.empty()) return PreflightAnswer();

    exchange.open_path = exchange.service->open_paths.contains(request.path);
    if (exchange.open_path) return std::nullopt;
    Result<Identity> identity = context_.access.Authenticate(access);
    if (!identity.ok()) return Unauthorized(identity.status(), ShowsKey(access));
    request.principal = std::move(identity->principal);
    request.scopes = identity->scopes;
    request.key_id = std::move(identity->key_id);
    request.session = std::move(identity->session);
    if (Status status = CheckRoom(); !status.ok()) {
      const bool starting = !exchange.service->starting.empty();
      // A proxy retries at once; this limits it to one retry per delay.
      if (context_.draining || starting) exchange.refusal_delay = context_.options.not_now_time;
      return ErrorResponse(status, starting ? 0 : ScatteredRetryMs());
    }
    return std::nullopt;
  }

  HttpResponse Unauthorized(const Status& why, bool shows_key) {
    if (shows_key) exchange_->refusal_delay = context_.failed_keys.Count(ticket_.address());
    return UnauthorizedAnswer(why);
  }

  /// Delays the response to a wrong key or to a request that cannot be served now, at most until the server stops. The
  /// connection is evictable meanwhile.
  void Delay(HttpResponse refusal) {
    const auto time = std::exchange(exchange_->refusal_delay, std::chrono::milliseconds(0));
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
    const Service& service = *exchange_->service;
    const HttpRequest& request = exchange_->request;
    const bool is_work = exchange_->upgrade || !service.router.IsAnsweredWhileDraining(request);
    if (context_.draining && is_work) return Unavailable("The server is stopping.");
    if (!service.starting.empty()) return Unavailable(service.starting);
    // Answered on the io threads, without a place: metrics matter most when all places are taken.
    if (service.router.IsAnsweredAtOnce(request.path)) return Status::Ok();
    const Status admitted = AdmissionStatus(ticket_.Admit(request.principal));
    if (admitted.ok()) silence_.Speak();
    return admitted;
  }

  void Dispatch() {
    if (!Work()) return Cut();
    MarkAnswering();
    if (exchange_->upgrade) return Upgrade();
    exchange_->request.body = exchange_->reader.TakeBody();
    if (exchange_->service->router.IsAnsweredAtOnce(exchange_->request.path)) return Answer(Route());
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
        ticket_.Client(exchange_->request.principal), exchange_->request.body.size(),
        [self = shared_from_this(), work, then] {
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
    phase_.Enter(State::kGivenUp);
    keep_alive_ = false;
    Write(StoppingAnswer());
  }

  /// The key may have been revoked or have expired while the body arrived or the request waited for a worker.
  bool IsKeyGood() const { return context_.access.IsGood(IdentityOf(exchange_->request)); }

  HttpResponse Route() const {
    if (!IsKeyGood()) return RevokedAnswer();
    const RequestWatch watch([this] { return socket_.PeerHasLeft(); });
    const Service& service = *exchange_->service;
    const HttpRequest& request = exchange_->request;
    return AnswerOrRefuse(request, [&] {
      HttpResponse response = service.router.Route(request);
      response.held = context_.Keep(std::move(response.held));
      if ((response.status == 404 || response.status == 405) && request.method == "GET" &&
          service.sockets.contains(request.path) && request.scopes.Has(Scopes::Chat())) {
        response = ErrorResponse(
            InvalidArgument("This path serves WebSockets only; send an upgrade request.", "", "upgrade_required"));
        response.headers.emplace_back("Upgrade", "websocket");
      }
      return response;
    });
  }

  void Upgrade() {
    const Service& service = *exchange_->service;
    const HttpRequest& request = exchange_->request;
    const HeadMessage& message = exchange_->reader.message();
    const auto route = service.sockets.find(request.path);
    if (route == service.sockets.end() || !request.scopes.Has(Scopes::Chat())) {
      return Answer(ErrorResponse(NotFound("There is no WebSocket at " + request.path + ".")));
    }
    if (!HasSocketKey(message)) return Refuse(BadRequest("Sec-WebSocket-Key must be 16 bytes in base64."));
    // Data before the upgrade's response, or a body, could hide a second request.
    if (buffer_.size() > 0) return Refuse(BadRequest("Wait for the upgrade."));
    if (!message.body().empty()) return Refuse(BadRequest("An upgrade request must not have a body."));
    if (!route->second.admit) return OpenIf(Status::Ok(), route->second);
    OnWorker(
        [&route = route->second](const HttpConnection& self) { return AdmitSocket(route, self.exchange_->request); },
        [&route = route->second](HttpConnection& self, const Status& status) { self.OpenIf(status, route); });
  }

  void OpenIf(const Status& admitted, const SocketRoute& route) {
    if (!IsKeyGood()) return Answer(RevokedAnswer());
    admitted.ok() ? Open(route) : Answer(ErrorResponse(admitted));
  }

  void Open(const SocketRoute& route) {
    timer_.cancel();
    context_.counters.HttpAnswered(101);
    StartConnection(std::move(socket_), std::move(ticket_), context_, exchange_->reader.message(), route,
                    std::move(exchange_->request), exchange_->ids.request_id());
  }

  /// Refuses a request and closes the connection.
  void Refuse(const Status& status) {
    keep_alive_ = false;
    Answer(ErrorResponse(status));
  }

  /// May be called twice for a request: when it is complete, and when its answer is known.
  void MarkAnswering() {
    phase_.Enter(State::kAnswering);
    answering_.Begin();
    ticket_.unread().End();
  }

  void Answer(HttpResponse response) {
    MarkAnswering();
    exchange_->request.body = std::string();
    (void)exchange_->reader.TakeBody();
    body_share_.GiveBack();
    Write(std::move(response));
  }

  void Write(HttpResponse response) {
    if (response.later) return Wait(response);
    const RequestReader& reader = exchange_->reader;
    const bool whole = reader.has_head() && reader.complete();
    AnswerStyle style;
    keep_alive_ = keep_alive_ && whole && reader.message().keep_alive() && !context_.closing;
    style.keep_alive = keep_alive_;
    style.without_body = reader.has_head() && reader.message().method() == http::verb::head;
    style.request_id = exchange_->ids.request_id();
    style.traceparent = exchange_->ids.traceparent();
    style.allow_origin = exchange_->allow_origin;
    if (response.stream) style.body = AnswerStyle::Body::kChunks;
    if (response.stream && !style.without_body) return Stream(std::move(response), style);
    if (HasBody(response, style) && !answer_.share.Hold(exchange_->request.principal, response.body.size())) {
      return Write(ErrorResponse(TooManyAnswers()));
    }
    context_.counters.HttpAnswered(response.status);
    answer_.head = WriteHead(response, style);
    answer_.body = HasBody(response, style) ? std::move(response.body) : std::string();
    if (!phase_.Is(State::kGivenUp)) {
      Arm(context_.options.request_timeout + std::chrono::seconds(answer_.body.size() / kSlowestBytesASecond));
      WaitForClient();
    }
    asio::async_write(socket_, std::array{asio::buffer(answer_.head), asio::buffer(answer_.body)},
                      [self = shared_from_this()](error_code error, size_t) { self->OnWritten(error); });
  }

  /// The response takes over the connection.
  void Stream(HttpResponse response, AnswerStyle style) {
    timer_.cancel();
    context_.counters.HttpAnswered(response.status);
    if (exchange_->reader.message().version() != 11) style.body = AnswerStyle::Body::kUntilClose;
    StartHttpStream(std::move(socket_), std::move(ticket_), context_, exchange_->request, std::move(response), style);
  }

  // ---- waiting for an answer that comes later ---------------------------------------------------------------------
  void Wait(const HttpResponse& response) {
    pending_ = {response.later, response.held, response.headers, shared_from_this()};
    member_ = context_.Join({.end =
                                 [late = pending_.late](ServerContext::End why) {
                                   late->Give(why == ServerContext::End::kStopping ? StoppingAnswer : RevokedAnswer);
                                 },
                             .abandon =
                                 [weak = weak_from_this()] {
                                   if (const auto self = weak.lock()) self->Cut();
                                 },
                             .identity = IdentityOf(exchange_->request)});
    pending_.late->Await([weak = weak_from_this()] {
      if (auto self = weak.lock()) {
        const auto executor = self->socket_.get_executor();
        asio::post(executor, [self = std::move(self)] { self->OnGiven(); });
      }
    });
    // The server may have started to stop since the check.
    if (context_.stopping) pending_.late->Give(StoppingAnswer);
    phase_.Enter(State::kWatching);
    WatchPeer();
  }

  /// Reads to detect that the peer leaves. Stops after buffering a limited part of its next request.
  void WatchPeer() {
    if (buffer_.size() >= kHttpReadBytes) {
      phase_.Enter(State::kWaiting);
      return;
    }
    socket_.async_read_some(buffer_.prepare(kHttpReadBytes),
                            [self = shared_from_this()](error_code error, size_t bytes) {
                              self->buffer_.commit(bytes);
                              if (self->phase_.Is(State::kGiven)) return self->AnswerLate();
                              error ? self->Cut() : self->WatchPeer();
                            });
  }

  void OnGiven() {
    if (pending_.late == nullptr) return;  // the peer has left
    if (!phase_.Enter(State::kGiven)) return AnswerLate();
    socket_.cancel();  // the read's completion continues with the response
  }

  void AnswerLate() {
    if (pending_.late == nullptr) return;
    const std::shared_ptr<void> self = std::move(pending_.owner);
    const std::function<HttpResponse()> make = std::exchange(pending_.late, nullptr)->Take();
    HttpResponse answer = AnswerOrRefuse(exchange_->request, make);
    std::ranges::move(std::exchange(pending_.headers, {}), std::back_inserter(answer.headers));
    Answer(std::move(answer));
    pending_.held.reset();
  }

  void Leave() {
    if (member_ != 0) context_.Leave(std::exchange(member_, 0));
  }

  // ---- after the answer -------------------------------------------------------------------------------------------
  void OnWritten(error_code error) {
    Leave();
    answering_.End();
    if (phase_.Is(State::kGivenUp)) return;  // the socket is closed when the server has stopped
    if (error) return Cut();
    answer_.head.clear();
    answer_.body = std::string();  // releases the memory of a large body
    answer_.share.GiveBack();
    if (keep_alive_) return NextRequest(false);
    phase_.Enter(State::kLingering);
    // Closing with unread input would reset the connection and could lose the response.
    Arm(kLingerTime);
    socket_.EndWriting([self = shared_from_this()](error_code failed) {
      if (failed) return self->Cut();
      self->buffer_.clear();
      self->Linger();
    });
  }

  void Linger() {
    socket_.async_drop_some(buffer_.prepare(kHttpReadBytes),
                            [self = shared_from_this()](error_code error, size_t bytes) {
                              self->lingered_bytes_ += bytes;
                              if (error || self->lingered_bytes_ > kMaxLingerBytes) return self->Cut();
                              self->Linger();
                            });
  }

  // ---- ending -----------------------------------------------------------------------------------------------------
  /// Cuts the connection after `time`; replaces the previous deadline.
  void Arm(std::chrono::milliseconds time) {
    ArmTimer(timer_, Timer::clock_type::now() + time, weak_from_this(),
             [](HttpConnection& self) { self.OnDeadline(); });
  }

  void OnDeadline() {
    // A peer that has sent part of a request gets a response.
    if (!phase_.Enter(State::kTimedOut)) return Cut();
    socket_.cancel();
  }

  void Cut() {
    Leave();
    const std::shared_ptr<void> self = std::move(pending_.owner);
    pending_.late.reset();
    pending_.held.reset();
    timer_.cancel();
    socket_.close();
  }

  NetStream socket_;
  ConnectionTicket ticket_;
  ServerContext& context_;
  Timer timer_;
  boost::beast::flat_buffer buffer_;
  HttpPhase phase_;
  std::optional<HttpExchange> exchange_;  // null only before Start
  BodyShare body_share_{context_.bodies};
  WrittenAnswer answer_{context_.answers};
  PendingAnswer pending_;
  uint64_t member_ = 0;
  CountMark answering_{context_.answering};
  SilentPeer silence_{context_.silent};
  uint64_t call_ = 0;  // of a worker, for this request; 0 = none
  bool keep_alive_ = true;
  size_t lingered_bytes_ = 0;
};

}  // namespace

void StartHttpConnection(NetStream stream, ConnectionTicket ticket, ServerContext& context) {
  std::make_shared<HttpConnection>(std::move(stream), std::move(ticket), context)->Start();
}

}  // namespace ringside
