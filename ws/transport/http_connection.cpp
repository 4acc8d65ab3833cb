#include "ws/transport/http_connection.h"

#include <array>
#include <atomic>
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
#include "ws/transport/http_stream.h"
#include "ws/transport/http_text.h"

namespace ringside {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

constexpr size_t kMaxHeaderBytes = 16 << 10;
constexpr size_t kMaxTargetBytes = 4 << 10;
constexpr size_t kReadBytes = 16 << 10;
// Read and thrown away after a refusal, so that the peer gets to read the answer instead of a reset.
constexpr size_t kMaxLingerBytes = 16 << 20;
constexpr std::chrono::milliseconds kLingerTime{2'000};

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// Those who come all at once, after a restart perhaps, shall not come back all at once.
int64_t ScatteredRetryMs() {
  static std::atomic<uint32_t> last{0};
  constexpr uint32_t kStep = 2654435769u;  // 2^32 / golden ratio: consecutive values lie far apart
  return 1'000 + static_cast<int64_t>((last.fetch_add(kStep) >> 20) % 4'000);
}

Status TooLarge() { return InvalidArgument("The request's body is too large.", "", "request_too_large"); }

Status TooManyBodies() { return Unavailable("Too many large requests are being read."); }

Status OutOfMemory() { return Unavailable("The server has no memory left for this request."); }

/// True if a line of the head goes on in the next, as HTTP once allowed: whoever stands between may read it otherwise.
bool HasFoldedLine(std::string_view head) {
  head = head.substr(0, head.find("\r\n\r\n"));
  return head.find("\r\n ") != std::string_view::npos || head.find("\r\n\t") != std::string_view::npos;
}

/// 16 bytes in base64.
bool IsSocketKey(std::string_view key) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  return key.size() == 24 && key.ends_with("==") &&
         key.substr(0, 22).find_first_not_of(kAlphabet) == std::string_view::npos;
}

Status ParseFailure(const error_code& error) {
  if (error == http::error::header_limit) {
    return InvalidArgument("The request's headers are too large.", "", "headers_too_large");
  }
  if (error == http::error::body_limit) return TooLarge();
  return InvalidArgument("This is no HTTP request: " + error.message() + ".", "", "bad_request");
}

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(Socket socket, ConnectionTicket ticket, ServerContext& context)
      : socket_(std::move(socket)), ticket_(std::move(ticket)), context_(context), timer_(socket_.get_executor()) {}

  ~HttpConnection() { Leave(); }

  void Start() {
    asio::dispatch(socket_.get_executor(), [self = shared_from_this()] { self->NextRequest(true); });
  }

 private:
  // ---- reading ----------------------------------------------------------------------------------------------------
  void NextRequest(bool first) {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(boost::none);  // set once the path is known
    header_checked_ = folded_ = false;
    request_begun_ = buffer_.size() > 0;
    request_id_ = MakeRequestId();
    allow_origin_.clear();
    Arm(first || request_begun_ ? context_.options.request_timeout : context_.options.keep_alive_timeout);
    request_begun_ ? Parse() : Read();
  }

  void Read() {
    socket_.async_read_some(buffer_.prepare(kReadBytes), [self = shared_from_this()](error_code error, size_t bytes) {
      self->OnRead(error, bytes);
    });
  }

  void OnRead(error_code error, size_t bytes) {
    if (error) return Cut();
    buffer_.commit(bytes);
    if (!request_begun_) {
      // The clock of a request starts with its first byte and is not set back by the ones that follow.
      request_begun_ = true;
      Arm(context_.options.request_timeout);
    }
    Parse();
  }

  void Parse() {
    for (;;) {
      if (parser_->is_header_done() && !header_checked_) {
        header_checked_ = true;
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
        return Refuse(InvalidArgument("This is no HTTP request.", "", "bad_request"));
      }
      if (!header_checked_ && parser_->is_header_done()) {
        folded_ = HasFoldedLine({static_cast<const char*>(buffer_.data().data()), used});
      }
      buffer_.consume(used);
      if (!body_share_.Grow(parser_->get().body().size())) return Refuse(TooManyBodies());
      if (error == http::error::need_more) {
        // What one header or chunk line may need has a limit; the buffer has the same.
        if (buffer_.size() > 2 * kMaxHeaderBytes) return Refuse(ParseFailure(http::error::header_limit));
        return Read();
      }
      if (error) return Refuse(ParseFailure(error));
    }
  }

  /// What this version of Beast lets pass and we do not.
  Status CheckHeader() {
    const auto& request = parser_->get();
    const auto bad = [](std::string text) { return InvalidArgument(std::move(text), "", "bad_request"); };
    if (folded_) return bad("A header is one line.");
    if (request.version() != 10 && request.version() != 11) return bad("Only HTTP/1.0 and HTTP/1.1 are spoken here.");
    if (request.target().size() > kMaxTargetBytes) {
      return InvalidArgument("The request's path is too long.", "", "uri_too_long");
    }
    if (request.count(http::field::host) > 1 || (request.version() == 11 && request.count(http::field::host) == 0)) {
      return bad("A request has exactly one Host header.");
    }
    if (request.count(http::field::origin) > 1) return bad("A request has at most one Origin header.");
    target_ = ParseTarget(View(request.target()));
    if (!target_) return bad("The request's path cannot be read.");
    if (!target_->authority.empty() && Lower(target_->authority) != Lower(View(request[http::field::host]))) {
      return bad("The request's path names another host than the Host header.");
    }
    if (request.version() == 11 && request.count(http::field::expect) > 0 && !ExpectsContinue()) {
      return InvalidArgument("The only expectation that is met here is 100-continue.", "", "expectation_failed");
    }
    if (request.count(http::field::transfer_encoding) > 0) {
      const bool chunked = request.count(http::field::transfer_encoding) == 1 &&
                           Lower(View(request[http::field::transfer_encoding])) == "chunked";
      if (request.version() != 11 || !chunked || request.count(http::field::content_length) > 0) {
        return bad("This Transfer-Encoding is not accepted.");
      }
    }
    const std::string encoding = Lower(View(request[http::field::content_encoding]));
    if (!encoding.empty() && encoding != "identity") {
      return InvalidArgument("Compressed bodies are not accepted.", "", "unsupported_media_type");
    }
    return Status::Ok();
  }

  Status LimitBody() {
    const auto limit =
        static_cast<uint64_t>(service_->router.BodyLimit(request_.path, context_.options.max_message_bytes));
    if (parser_->content_length().value_or(0) > limit) return TooLarge();
    parser_->body_limit(limit);
    return Status::Ok();
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
    if (Status status = context_.access.CheckSource(access); !status.ok()) return ErrorResponse(status);
    if (access.has_origin && context_.access.IsForeignAllowed(access.origin, access.host)) {
      allow_origin_ = access.origin;
    }
    // A browser asks whether it may ask, and shows no key for that.
    if (request_.method == "OPTIONS" && !allow_origin_.empty()) return PreflightAnswer();

    service_ = context_.service();
    if (service_->open_paths.contains(request_.path)) return std::nullopt;
    Result<std::string> principal = context_.access.Authenticate(access);
    if (!principal.ok()) {
      HttpResponse response = ErrorResponse(principal.status());
      response.headers.emplace_back("WWW-Authenticate", "Bearer");
      return response;
    }
    request_.principal = std::move(principal.value());
    if (Status status = CheckRoom(); !status.ok()) {
      return ErrorResponse(status, service_->starting.empty() ? ScatteredRetryMs() : 0);
    }
    return std::nullopt;
  }

  Status CheckRoom() const {
    if (context_.draining) return Unavailable("The server is stopping.");
    if (!service_->starting.empty()) return Unavailable(service_->starting);
    if (ticket_.number() > context_.options.max_connections) {
      return InvalidArgument("The server has no room for another connection.", "", "too_many_connections");
    }
    return Status::Ok();
  }

  void Dispatch() {
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
          service_->sockets.contains(request_.path)) {
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
    try {
      return make();
    } catch (const std::bad_alloc&) {
      LogError("{} {} failed for want of memory", request_.method, request_.path);
      return ErrorResponse(OutOfMemory());
    } catch (const std::exception& error) {
      LogError("{} {} failed: {}", request_.method, request_.path, error.what());
      return ErrorResponse(IoError("The server failed to answer this request."));
    }
  }

  void Upgrade() {
    const auto route = service_->sockets.find(request_.path);
    if (route == service_->sockets.end()) {
      return Answer(ErrorResponse(NotFound("There is no WebSocket at " + request_.path + ".")));
    }
    if (parser_->get().count(http::field::sec_websocket_key) != 1 ||
        !IsSocketKey(request_.Header("sec-websocket-key"))) {
      return Refuse(InvalidArgument("A Sec-WebSocket-Key is 16 bytes in base64.", "", "bad_request"));
    }
    // Frames before the answer could be a second request in disguise.
    if (buffer_.size() > 0) return Refuse(InvalidArgument("Wait for the upgrade.", "", "bad_request"));
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
    try {
      return route.admit(request_);
    } catch (const std::exception& error) {
      LogError("an upgrade of {} failed: {}", request_.path, error.what());
      return IoError("The server failed to answer this request.");
    }
  }

  static HttpResponse PreflightAnswer() {
    HttpResponse response;
    response.status = 204;
    response.headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
                        {"Access-Control-Allow-Headers", "Authorization, Content-Type, *"},
                        {"Access-Control-Max-Age", "600"}};
    return response;
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
    style.allow_origin = allow_origin_;
    if (response.stream) style.body = AnswerStyle::Body::kChunks;
    context_.counters.HttpAnswered(response.status);
    if (response.stream && !style.without_body) return Stream(std::move(response), style);
    answer_ = WriteHead(response, style);
    body_ = HasBody(response, style) ? std::move(response.body) : std::string();
    Arm(context_.options.request_timeout);
    asio::async_write(socket_, std::array{asio::buffer(answer_), asio::buffer(body_)},
                      [self = shared_from_this()](error_code error, size_t) { self->OnWritten(error); });
  }

  /// The answer takes the connection with it.
  void Stream(HttpResponse response, AnswerStyle style) {
    timer_.cancel();
    if (parser_->get().version() != 11) style.body = AnswerStyle::Body::kUntilClose;
    StartHttpStream(std::move(socket_), std::move(ticket_), context_, request_.principal, std::move(response), style);
  }

  // ---- waiting for an answer that comes later ---------------------------------------------------------------------
  void Wait(const HttpResponse& response) {
    late_ = response.later;
    held_ = response.held;
    self_ = shared_from_this();
    member_ = context_.Join({.stop = [late = late_] { late->Give(StoppingAnswer); },
                             .abandon =
                                 [weak = weak_from_this()] {
                                   if (const auto self = weak.lock()) self->Cut();
                                 }});
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

  static HttpResponse StoppingAnswer() {
    return ErrorResponse(Unavailable("The server is stopping."), ScatteredRetryMs());
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
    error_code ignored;
    socket_.cancel(ignored);  // the read goes on to the answer
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
    socket_.shutdown(asio::socket_base::shutdown_send, error);
    if (error) return Cut();
    Arm(kLingerTime);
    buffer_.clear();
    Linger();
  }

  void Linger() {
    socket_.async_read_some(buffer_.prepare(kReadBytes), [self = shared_from_this()](error_code error, size_t bytes) {
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
    // A request cut in the middle is told so, once, if nothing is being written.
    const bool partial = request_begun_ && answer_.empty() && keep_alive_ && !(parser_ && parser_->is_done());
    if (!partial) return Cut();
    error_code ignored;
    HttpResponse response =
        ErrorResponse(InvalidArgument("The request did not arrive in time.", "", "request_timeout"));
    const std::string text = WriteAnswer(response, {.keep_alive = false, .request_id = request_id_});
    socket_.non_blocking(true, ignored);
    socket_.write_some(asio::buffer(text), ignored);
    context_.counters.HttpAnswered(response.status);
    Cut();
  }

  void Cut() {
    error_code ignored;
    Leave();
    const std::shared_ptr<HttpConnection> self = std::move(self_);
    late_.reset();
    held_.reset();
    timer_.cancel();
    socket_.close(ignored);
  }

  Socket socket_;
  ConnectionTicket ticket_;
  ServerContext& context_;
  Timer timer_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  bool header_checked_ = false;
  bool folded_ = false;         // a line of the head went on in the next
  bool request_begun_ = false;  // its first byte has come
  bool keep_alive_ = true;
  bool upgrade_ = false;
  std::shared_ptr<const Service> service_;  // the one that admitted the request
  std::optional<HttpTarget> target_;
  HttpRequest request_;
  BodyShare body_share_{context_.bodies};
  std::string request_id_, allow_origin_, answer_, body_;
  std::shared_ptr<LateAnswer> late_;      // not null: it is awaited
  std::shared_ptr<void> held_;            // by that answer
  std::shared_ptr<HttpConnection> self_;  // while it is awaited: no operation need be pending then
  uint64_t member_ = 0;
  bool watching_ = false;  // a read is pending while the answer is awaited
  bool given_ = false;     // the answer has come, and waits for that read to end
  size_t lingered_bytes_ = 0;
};

}  // namespace

void StartHttpConnection(Socket socket, ConnectionTicket ticket, ServerContext& context) {
  std::make_shared<HttpConnection>(std::move(socket), std::move(ticket), context)->Start();
}

}  // namespace ringside
