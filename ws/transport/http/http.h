// HTTP requests and responses as plain values, between the transport and the faces. No Boost type crosses this
// interface.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/trace_context.h"
#include "ws/access/scope.h"
#include "ws/transport/outbox.h"

namespace ringside {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // decoded as in HttpTarget, without the query: "/v1/conversations/conv_x"
  std::vector<std::pair<std::string, std::string>> query;    // decoded, in request order
  std::vector<std::pair<std::string, std::string>> headers;  // lower-case names
  std::string body;
  std::string address;            // the client's, as limits/client_address.h writes it; "" in tests
  std::string principal;          // authenticated owner; "" without keys
  Scopes scopes = Scopes::All();  // of the owner's key
  std::string key_id;             // id in the keys file; "" = not from the keys file
  std::string session;            // the ticket's Realtime session settings as JSON; "" = none
  TraceContext trace;             // of this request; for a WebSocket, of the opening request

  /// First value of a query parameter or header; "" if absent.
  std::string_view Query(std::string_view name) const;
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse;

/// A response that is not known yet, such as that of a running turn. The handler creates it, passes it to the producer
/// and returns it in HttpResponse::later.
/// THREAD: any.
class LateAnswer {
 public:
  /// Supplies the response; only the first call counts. `make` is called at most once, on the connection's strand, when
  /// the response is written, and not at all if the peer has left. An exception becomes a 500. May be called under any
  /// lock, and before the handler has returned.
  void Give(std::function<HttpResponse()> make);
  /// For the transport: `wake` is called once, by Give or immediately.
  /// REQUIRES: `wake` may be called on any thread.
  void Await(std::function<void()> wake);
  /// Returns the supplied function once.
  /// REQUIRES: `wake` has been called.
  std::function<HttpResponse()> Take();

 private:
  std::mutex mutex_;
  std::function<HttpResponse()> make_;
  std::function<void()> wake_;
  bool given_ = false;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::string cache_control = "no-store";
  std::vector<std::pair<std::string, std::string>> headers;
  /// If not null, the body is not `body` but the messages pushed into this outbox until it is closed with
  /// Outbox::kEndOfBody. Called once, on a worker, while the head is sent; its result is kept until the response has
  /// ended or the peer has left.
  std::function<std::shared_ptr<void>(std::shared_ptr<Outbox>)> stream;
  /// If not null, only `held` and `headers` of this response count; the headers are added to those of the response that
  /// `later` receives. No thread waits for it; the head is written when it arrives. The connection's next request is
  /// read after it.
  std::shared_ptr<LateAnswer> later = nullptr;
  /// Released when a streamed or late response has ended, when its peer has left before that (a peer that closes its
  /// sending side has left), and at the latest before Server::Stop returns. Its destructor is the place to cancel
  /// abandoned work.
  std::shared_ptr<void> held = nullptr;
};

/// 200 with a JSON body.
HttpResponse JsonResponse(std::string body);

/// The wire form of a Status: HTTP status and the members of `error`. The only place that maps codes.
struct WireError {
  int http_status = 500;
  std::string type;     // "invalid_request_error", ...
  std::string code;     // "context_length_exceeded", ...
  std::string message;  // long quotations of the request are cut; never contains file names or system errors
  std::string param;
  int64_t retry_after_ms = 0;  // > 0: a retry may succeed after this time
};
/// `retry_after_ms`: the estimate of the caller, unless the status has one (ServerOverload); 0 = one second where a
/// retry may succeed.
WireError MapStatus(const Status& status, int64_t retry_after_ms = 0);
/// {"error":{"message","type","param","code"}} with the mapped HTTP status; Retry-After and retry-after-ms where a
/// retry may succeed, otherwise x-should-retry: false.
HttpResponse ErrorResponse(const Status& status, int64_t retry_after_ms = 0);

/// As ErrorResponse, as a WebSocket event: {"type":"error","status","error"}.
std::string ErrorEvent(const Status& status);

/// Maps method and path pattern to a handler. A pattern segment in braces matches one path segment:
/// "/v1/conversations/{id}".
class Router {
 public:
  using Parameters = std::vector<std::string>;  // values of the brace segments, in order
  using Handler = std::function<HttpResponse(const HttpRequest&, const Parameters&)>;

  /// Adds a route. Requests whose key lacks `scope` get a 404.
  void Add(std::string method, std::string pattern, Handler handler, Scopes scope = Scopes::Chat());
  /// Permits slashes, encoded as "%2F", in the brace segments of this pattern. Elsewhere a value with an ambiguous
  /// escape matches nothing.
  /// REQUIRES: the pattern has been added.
  void AllowEscapedSlashes(const std::string& pattern);
  /// Sets the body limit of exactly this path, in place of the general one.
  void AllowBody(std::string path, int64_t bytes) { body_bytes_[std::move(path)] = bytes; }
  /// Runs the handlers of exactly this path on the io threads, because they never block. All others run on the workers.
  void AnswerAtOnce(std::string path) { at_once_.insert(std::move(path)); }
  bool IsAnsweredAtOnce(const std::string& path) const { return at_once_.contains(path); }
  /// Serves requests of this method and pattern while the server drains, as it does reads (GET, HEAD).
  /// REQUIRES: the route has been added.
  void AnswerWhileDraining(std::string_view method, std::string_view pattern);
  bool IsAnsweredWhileDraining(const HttpRequest& request) const;
  /// The body limit of this request; `others` unless the path has its own.
  int64_t BodyLimit(const HttpRequest& request, int64_t others) const;
  /// Runs the handler of the first matching pattern: "/v1/conversations/import", added first, takes precedence over
  /// "/v1/conversations/{id}" for every method and key. 404 for an unknown path, 405 with Allow for an unknown method.
  /// THREAD: any, after all Adds.
  HttpResponse Route(const HttpRequest& request) const;

  /// One line per route, in order of addition: "GET /v1/models chat".
  std::vector<std::string> Describe() const;

 private:
  struct Entry {
    std::string method, pattern;
    std::vector<std::string> segments;
    Handler handler;
    Scopes scope;
    bool escaped_slashes = false;
    bool while_draining = false;
  };
  /// Sets the brace values if the path matches.
  static bool Match(const Entry& entry, const std::vector<std::string>& path, Parameters& values);
  /// Returns the entries of the first pattern that matches the path, whatever their methods and scopes: a word with a
  /// route of its own is never a value of a later pattern. Sets the brace values.
  std::vector<const Entry*> EntriesFor(const std::string& path, Parameters* values) const;
  /// The known path that the request misses by a base URL without /v1, or with one /v1 too many; "" if there is none.
  std::string PathUnderOtherBase(const HttpRequest& request) const;
  std::vector<Entry> entries_;
  std::map<std::string, int64_t> body_bytes_;
  std::set<std::string> at_once_;
};

}  // namespace ringside
