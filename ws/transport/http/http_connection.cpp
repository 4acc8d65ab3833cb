#include "ws/transport/http/http_connection.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <cctype>
#include <new>
#include <optional>

#include "base/log.h"
#include "ws/transport/connection.h"
#include "ws/transport/http/http_refusals.h"
#include "ws/transport/http/http_stream.h"
#include "ws/transport/http/http_text.h"
#include "ws/transport/http/request_head.h"

namespace ringside {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

constexpr size_t kMaxTargetBytes = 4 << 10;
constexpr size_t kMaxChunkLineBytes = 16 << 10;
constexpr size_t kReadBytes = 16 << 10;
// Read and thrown away after a refusal, so that the peer gets to read the answer instead of a reset.
constexpr size_t kMaxLingerBytes = 16 << 20;
constexpr std::chrono::milliseconds kLingerTime{2'000};
// Of a large answer; a small one has the time of a request.
constexpr size_t kSlowestBytesASecond = 64 << 10;
// Of a body that comes: this much of it must come in each time of a request.
constexpr int64_t kSlowestUploadBytesASecond = 8 << 10;

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// 16 bytes in base64.
bool IsSocketKey(std::string_view key) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  return key.size() == 24 && key.ends_with("==") &&
         key.substr(0, 22).find_first_not_of(kAlphabet) == std::string_view::npos;
}

Status ParseFailure(const error_code& error) {
  if (error == http::error::body_limit) return TooLarge();
  return BadRequest("This is no HTTP request: " + error.message() + ".");
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
    parser_->header_limit(2 * RequestHead::kMaxBytes);  // ours is read before
    parser_->body_limit(boost::none);                   // set once the path is known
    parser_->on_chunk_header(chunk_header_);
    head_ = RequestHead();
    header_checked_ = false;
    allowed_bytes_ = 0;
    request_begun_ = buffer_.size() > 0;
    request_digits_ = MakeRequestDigits();
    JoinTrace("");
    allow_origin_.clear();
    Arm(first || request_begun_ ? context_.options.request_timeout : context_.options.keep_alive_timeout);
    if (!ticket_.admitted()) BeSilent();
    request_begun_ ? Parse() : Read();
  }

  /// Until a head has come this connection gives way if there is no place for another.
  void BeSilent() {
    silence_.BeSilent([weak = weak_from_this(), executor = socket_.get_executor()] {
      const auto self = weak.lock();
      if (!self) return;
      asio::post(executor, [self] {
        if (self->silence_.silent()) self->Cut();
      });
    });
  }

  void Read() {
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
      // The clock of a request starts with its first byte and is not set back by the ones that follow in its head.
      request_begun_ = true;
      Arm(context_.options.request_timeout);
    }
    Parse();
  }

  /// True once the parser may have the head; else it has been refused or is read on.
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
        silence_.Speak();
        if (Status status = CheckHeader(); !status.ok()) return Refuse(status);
        if (std::optional<HttpResponse> refusal = Admit()) return Answer(std::move(*refusal));
        if (Status status = LimitBody(); !status.ok()) return Refuse(status);
        if (WantsContinue()) return SendContinue();
      }
      if (parser_->is_done()) return Dispatch();
      if (buffer_.size() == 0) return Read();
      error_code error;
      size_t used = 0;
      try {
        used = parser_->put(buffer_.data(), error);
      } catch (const std::bad_alloc&) {
        return Refuse(OutOfMemory());
      } catch (const std::exception&) {
        // This version of Beast throws for an over-long trailer.
        return Refuse(BadRequest("This is no HTTP request."));
      }
      buffer_.consume(used);
      if (!body_share_.Grow(parser_->get().body().size())) return Refuse(TooManyBodies());
      AllowForBody();
      if (error == http::error::need_more) {
        if (buffer_.size() > kMaxChunkLineBytes) return Refuse(BadRequest("A line between chunks is too long."));
        return Read();
      }
      if (error) return Refuse(ParseFailure(error));
    }
  }

  /// What this version of Beast lets pass and we do not.
  Status CheckHeader() {
    const auto& request = parser_->get();
    if (request.target().size() > kMaxTargetBytes) {
      return InvalidArgument("The request's path is too long.", "", "uri_too_long");
    }
    if (request.version() == 11 && request.count(http::field::host) == 0) {
      return BadRequest("A request has exactly one Host header.");
    }
    // Who presents two keys, or comes from two places, may mean either.
    for (const auto once : {http::field::origin, http::field::authorization, http::field::content_type}) {
      if (request.count(once) > 1)
        return BadRequest("A request has at most one " + std::string(View(to_string(once))) + " header.");
    }
    if (request.count("x-api-key") > 1) return BadRequest("A request has at most one x-api-key header.");
    // One that is repeated names no trace.
    if (request.count("traceparent") == 1) JoinTrace(View(request["traceparent"]));
    target_ = ParseTarget(View(request.target()));
    if (!target_) return BadRequest("The request's path cannot be read.");
    if (!target_->authority.empty() && Lower(target_->authority) != Lower(View(request[http::field::host]))) {
      return BadRequest("The request's path names another host than the Host header.");
    }
    if (request.version() == 11 && request.count(http::field::expect) > 0 && !ExpectsContinue()) {
      return InvalidArgument("The only expectation that is met here is 100-continue.", "", "expectation_failed");
    }
    if (request.version() != 11 && request.count(http::field::transfer_encoding) > 0) {
      return BadRequest("HTTP/1.0 has no Transfer-Encoding.");
    }
    fields_ = std::distance(request.begin(), request.end());
    const std::string encoding = Lower(View(request[http::field::content_encoding]));
    if (!encoding.empty() && encoding != "identity") {
      return InvalidArgument("Compressed bodies are not accepted.", "", "unsupported_media_type");
    }
    return Status::Ok();
  }

  void JoinTrace(std::string_view header) {
    trace_ = ringside::JoinTrace(header, request_digits_);
    request_id_ = "req_" + request_digits_;
    traceparent_ = Traceparent(trace_);
  }

  Status LimitBody() {
    const auto limit = static_cast<uint64_t>(service_->router.BodyLimit(request_, context_.options.max_message_bytes));
    if (parser_->content_length().value_or(0) > limit) return TooLarge();
    parser_->body_limit(limit);
    return Status::Ok();
  }

  /// Sets the clock back for each part of the body that came fast enough: a large one takes its time, a trickle does
  /// not.
  void AllowForBody() {
    const auto time = context_.options.request_timeout;
    const size_t bytes = parser_->get().body().size();
    if (static_cast<int64_t>(bytes - allowed_bytes_) * 1000 < kSlowestUploadBytesASecond * time.count()) return;
    allowed_bytes_ = bytes;
    Arm(time);
  }

  bool ExpectsContinue() const {
    const auto& request = parser_->get();
    return request.count(http::field::expect) == 1 && Lower(View(request[http::field::expect])) == "100-continue";
  }

  bool WantsContinue() const { return !parser_->is_done() && parser_->get().version() == 11 && ExpectsContinue(); }

  void SendContinue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(socket_, asio::buffer(kContinue.data(), kContinue.size()),
                      [self = shared_from_this()](error_code error, size_t) { error ? self->Cut() : self->Parse(); });
  }

  // ---- answering --------------------------------------------------------------------------------------------------
  /// Decides, before any body is read, whether the request may be made at all; the answer if not.
  std::optional<HttpResponse> Admit() {
    const auto& message = parser_->get();
    request_ = HttpRequest();
    request_.method = std::string(View(message.method_string()));
    request_.trace = trace_;
    request_.path = std::move(target_->path);
    request_.query = std::move(target_->query);
    for (const auto& field : message) {
      request_.headers.emplace_back(Lower(View(field.name_string())), std::string(View(field.value())));
    }
    upgrade_ = boost::beast::websocket::is_upgrade(message);
    AccessRequest access;
    access.host = request_.Header("host");
    access.origin = request_.Header("origin");
    access.has_origin = message.count(http::field::origin) > 0;
    access.authorization = request_.Header("authorization");
    access.subprotocols = request_.Header("sec-websocket-protocol");
    access.upgrade = upgrade_;
    access.api_key = request_.Header("x-api-key");
    const std::string ticket = TakeTicket();
    access.ticket = ticket;
    access.fetch_site = request_.Header("sec-fetch-site");
    access.fetch_mode = request_.Header("sec-fetch-mode");
    if (Status status = context_.access.CheckSource(access); !status.ok()) return ErrorResponse(status);
    if (access.has_origin && context_.access.IsForeignAllowed(access.origin, access.host)) {
      allow_origin_ = access.origin;
    }
    // A browser asks whether it may ask, and shows no key for that.
    if (request_.method == "OPTIONS" && !allow_origin_.empty()) return PreflightAnswer();

    service_ = context_.service();
    if (service_->open_paths.contains(request_.path)) return std::nullopt;
    Result<Identity> identity = context_.access.Authenticate(access);
    if (!identity.ok()) {
      HttpResponse response = ErrorResponse(identity.status());
      response.headers.emplace_back("WWW-Authenticate", "Bearer");
      return response;
    }
    request_.principal = std::move(identity->principal);
    request_.scopes = identity->scopes;
    request_.key_id = std::move(identity->key_id);
    request_.session = std::move(identity->session);
    if (Status status = CheckRoom(); !status.ok()) {
      return ErrorResponse(status, service_->starting.empty() ? ScatteredRetryMs() : 0);
    }
    return std::nullopt;
  }

  /// The ticket of the query, which nobody else gets to see.
  std::string TakeTicket() {
    std::string ticket;
    std::erase_if(request_.query, [&ticket](auto& parameter) {
      if (parameter.first != "ticket") return false;
      ticket = std::move(parameter.second);
      return true;
    });
    return ticket;
  }

  Status CheckRoom() {
    if (context_.draining) return Unavailable("The server is stopping.");
    if (!service_->starting.empty()) return Unavailable(service_->starting);
    if (!ticket_.Admit()) {
      return InvalidArgument("The server has no room for another connection.", "", "too_many_connections");
    }
    return Status::Ok();
  }

  void Dispatch() {
    // They could change what has been decided already.
    if (std::distance(parser_->get().begin(), parser_->get().end()) != fields_) {
      return Refuse(BadRequest("Trailers are not accepted."));
    }
    if (upgrade_) return Upgrade();
    request_.body = std::move(parser_->get().body());
    if (service_->router.IsAnsweredAtOnce(request_.path)) return Answer(Route());
    OnWorker([](const HttpConnection& self) { return self.Route(); },
             [](HttpConnection& self, HttpResponse response) { self.Answer(std::move(response)); });
  }

  /// Runs `work` on a worker and `then`, with what it returned, on the strand. Nothing else happens here in between.
  template <class Work, class Then>
  void OnWorker(Work work, Then then) {
    timer_.expires_at(Timer::time_point::max());
    const Status accepted = context_.workers.Submit(
        ticket_.Client(request_.principal), request_.body.size(), [self = shared_from_this(), work, then] {
          asio::post(self->socket_.get_executor(),
                     [self, then, result = work(std::as_const(*self))]() mutable { then(*self, std::move(result)); });
        });
    if (!accepted.ok()) Answer(ErrorResponse(accepted));
  }

  HttpResponse Route() const {
    return Guarded([this] {
      HttpResponse response = service_->router.Route(request_);
      response.held = context_.Keep(std::move(response.held));
      if ((response.status == 404 || response.status == 405) && request_.method == "GET" &&
          service_->sockets.contains(request_.path) && request_.scopes.Has(Scopes::Chat())) {
        response = ErrorResponse(
            InvalidArgument("This is spoken over a WebSocket: ask for the upgrade.", "", "upgrade_required"));
        response.headers.emplace_back("Upgrade", "websocket");
      }
      return response;
    });
  }

  /// What `make` returns, or the answer to what it throws.
  template <class Make>
  HttpResponse Guarded(Make make) const {
    const LogTrace trace(request_.trace);
    try {
      return make();
    } catch (const std::bad_alloc&) {
      LogError("{} {} failed for want of memory", request_.method, request_.path);
      return ErrorResponse(OutOfMemory());
    } catch (const std::exception& error) {
      LogError("{} {} failed: {}", request_.method, request_.path, TypeOf(error));
      return ErrorResponse(IoError("The server failed to answer this request."));
    }
  }

  void Upgrade() {
    const auto route = service_->sockets.find(request_.path);
    if (route == service_->sockets.end() || !request_.scopes.Has(Scopes::Chat())) {
      return Answer(ErrorResponse(NotFound("There is no WebSocket at " + request_.path + ".")));
    }
    if (parser_->get().count(http::field::sec_websocket_key) != 1 ||
        !IsSocketKey(request_.Header("sec-websocket-key"))) {
      return Refuse(BadRequest("A Sec-WebSocket-Key is 16 bytes in base64."));
    }
    // Frames before the answer could be a second request in disguise, and so could a body.
    if (buffer_.size() > 0) return Refuse(BadRequest("Wait for the upgrade."));
    if (!parser_->get().body().empty()) return Refuse(BadRequest("An upgrade has no body."));
    if (!route->second.admit) return Open(route->second);
    OnWorker([&route = route->second](const HttpConnection& self) { return self.AdmitSocket(route); },
             [&route = route->second](HttpConnection& self, const Status& status) {
               status.ok() ? self.Open(route) : self.Answer(ErrorResponse(status));
             });
  }

  void Open(const SocketRoute& route) {
    timer_.cancel();
    context_.counters.HttpAnswered(101);
    StartConnection(std::move(socket_), std::move(ticket_), context_, parser_->get(), route, std::move(request_),
                    request_id_);
  }

  Status AdmitSocket(const SocketRoute& route) const {
    const LogTrace trace(request_.trace);
    try {
      return route.admit(request_);
    } catch (const std::exception& error) {
      LogError("an upgrade of {} failed: {}", request_.path, TypeOf(error));
      return IoError("The server failed to answer this request.");
    }
  }

  /// Answers a request after which the connection cannot or shall not go on.
  void Refuse(const Status& status) {
    keep_alive_ = false;
    Answer(ErrorResponse(status));
  }

  void Answer(HttpResponse response) {
    request_.body = parser_->get().body() = std::string();
    body_share_.GiveBack();
    if (response.later) return Wait(response);
    const auto& request = parser_->get();
    const bool whole = parser_->is_header_done() && parser_->is_done();
    AnswerStyle style;
    keep_alive_ = keep_alive_ && whole && request.keep_alive() && !context_.draining;
    style.keep_alive = keep_alive_;
    style.without_body = parser_->is_header_done() && request.method() == http::verb::head;
    style.request_id = request_id_;
    style.traceparent = traceparent_;
    style.allow_origin = allow_origin_;
    if (response.stream) style.body = AnswerStyle::Body::kChunks;
    context_.counters.HttpAnswered(response.status);
    if (response.stream && !style.without_body) return Stream(std::move(response), style);
    answer_ = WriteHead(response, style);
    body_ = HasBody(response, style) ? std::move(response.body) : std::string();
    Arm(context_.options.request_timeout + std::chrono::seconds(body_.size() / kSlowestBytesASecond));
    asio::async_write(socket_, std::array{asio::buffer(answer_), asio::buffer(body_)},
                      [self = shared_from_this()](error_code error, size_t) { self->OnWritten(error); });
  }

  /// The answer takes the connection with it.
  void Stream(HttpResponse response, AnswerStyle style) {
    timer_.cancel();
    if (parser_->get().version() != 11) style.body = AnswerStyle::Body::kUntilClose;
    StartHttpStream(std::move(socket_), std::move(ticket_), context_, request_, std::move(response), style);
  }

  // ---- waiting for an answer that comes later ---------------------------------------------------------------------
  void Wait(const HttpResponse& response) {
    late_ = response.later;
    held_ = response.held;
    self_ = shared_from_this();
    member_ = context_.Join({.end =
                                 [late = late_](ServerContext::End why) {
                                   late->Give(why == ServerContext::End::kStopping ? StoppingAnswer : RevokedAnswer);
                                 },
                             .abandon =
                                 [weak = weak_from_this()] {
                                   if (const auto self = weak.lock()) self->Cut();
                                 },
                             .key_id = request_.key_id});
    late_->Await([weak = weak_from_this()] {
      if (auto self = weak.lock()) {
        const auto executor = self->socket_.get_executor();
        asio::post(executor, [self = std::move(self)] { self->OnGiven(); });
      }
    });
    // The server may have begun to stop between the check and now.
    if (context_.stopping) late_->Give(StoppingAnswer);
    WatchPeer();
  }

  /// Reads on, to notice that the peer goes. What it already sends of its next request is kept, up to a limit; one that
  /// sends more is read again, and missed, when its answer is written.
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
    if (late_ == nullptr) return;  // the peer has gone
    given_ = true;
    if (!watching_) return AnswerLate();
    socket_.cancel();  // the read goes on to the answer
  }

  void AnswerLate() {
    given_ = false;
    if (late_ == nullptr) return;
    const std::shared_ptr<HttpConnection> self = std::move(self_);
    const std::function<HttpResponse()> make = std::exchange(late_, nullptr)->Take();
    Answer(Guarded([&make] { return make(); }));
    held_.reset();
  }

  void Leave() {
    if (member_ != 0) context_.Leave(std::exchange(member_, 0));
  }

  // ---- after the answer -------------------------------------------------------------------------------------------
  void OnWritten(error_code error) {
    Leave();
    if (error) return Cut();
    answer_.clear();
    body_ = std::string();  // it may have been large
    if (keep_alive_) return NextRequest(false);
    // Closing with unread bytes would reset the connection and could take the answer with it.
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
  /// Cuts the connection at this time, replacing the deadline before.
  void Arm(std::chrono::milliseconds time) {
    timer_.expires_after(time);
    timer_.async_wait([weak = weak_from_this()](error_code cancelled) {
      const auto self = weak.lock();
      // A timer set again after it had expired calls with success: only its present time counts.
      if (cancelled || !self || self->timer_.expiry() > std::chrono::steady_clock::now()) return;
      self->OnDeadline();
    });
  }

  void OnDeadline() {
    // Who has sent a part of a request is told.
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
  /// Called for each chunk: its extensions mean nothing here, and others may take them for something.
  std::function<void(uint64_t, boost::beast::string_view, error_code&)> chunk_header_ =
      [](uint64_t, boost::beast::string_view extensions, error_code& error) {
        if (!extensions.empty()) error = http::error::bad_chunk_extension;
      };
  RequestHead head_;
  std::ptrdiff_t fields_ = 0;  // of the head
  bool header_checked_ = false;
  size_t allowed_bytes_ = 0;    // of the body, when the clock was last set
  bool reading_ = false;        // more of the request
  bool timed_out_ = false;      // which has not come in time
  bool request_begun_ = false;  // its first byte has come
  bool keep_alive_ = true;
  bool upgrade_ = false;
  std::shared_ptr<const Service> service_;  // the one that admitted the request
  std::optional<HttpTarget> target_;
  HttpRequest request_;
  BodyShare body_share_{context_.bodies};
  TraceContext trace_;
  std::string request_digits_, request_id_, traceparent_, allow_origin_, answer_, body_;
  std::shared_ptr<LateAnswer> late_;      // not null: it is awaited
  std::shared_ptr<void> held_;            // by that answer
  std::shared_ptr<HttpConnection> self_;  // while it is awaited: no operation need be pending then
  uint64_t member_ = 0;
  SilentPeer silence_{context_.silent};
  bool watching_ = false;  // a read is pending while the answer is awaited
  bool given_ = false;     // the answer has come, and waits for that read to end
  size_t lingered_bytes_ = 0;
};

}  // namespace

void StartHttpConnection(NetStream stream, ConnectionTicket ticket, ServerContext& context) {
  std::make_shared<HttpConnection>(std::move(stream), std::move(ticket), context)->Start();
}

}  // namespace ringside
