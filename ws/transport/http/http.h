// An HTTP request and its answer as plain values, between the transport and the faces. No Boost type crosses here.
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
  std::string path;    // decoded as HttpTarget's, without the query: "/v1/conversations/conv_x"
  std::vector<std::pair<std::string, std::string>> query;    // decoded, in order
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  std::string principal;          // who asks, after authentication; "" where no key is configured
  Scopes scopes = Scopes::All();  // what for
  std::string key_id;             // by which key of the keys file; "" = by none
  std::string session;            // what its ticket says of the Realtime session that it opens, as JSON; "" = nothing
  TraceContext trace;             // of this request; of a WebSocket, of the request that opened it

  /// First value of a query parameter or header; "" if absent.
  std::string_view Query(std::string_view name) const;
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse;

/// An answer that is not known yet, such as that of a turn that has just begun. The handler makes it, gives it to
/// whoever will know, and returns it in HttpResponse::later. Thread-safe.
class LateAnswer {
 public:
  /// The first call counts. `make` is called once, on the connection's strand, when the answer is written; not at all
  /// if the peer is gone by then. What it throws is answered by 500. May be called under any lock, and before the
  /// handler has returned.
  void Give(std::function<HttpResponse()> make);
  /// Of the transport: `wake` is called once, by the call that gives the answer or at once; it must be safe from any
  /// thread.
  void Await(std::function<void()> wake);
  /// What was given. Behind `wake`, once.
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
  /// Not null: the body is not `body` but what is pushed into this outbox until it is closed with
  /// Outbox::kEndOfBody. Called once, on a worker, while the head is sent; what it returns is kept until the answer has
  /// ended or the peer is gone.
  std::function<std::shared_ptr<void>(std::shared_ptr<Outbox>)> stream;
  /// Not null: nothing of this answer counts but `held` and `headers`, which are added to those of the answer that
  /// `later` will be given. No thread waits for it, and the head is written when it has come. The next request of the
  /// connection is read after it.
  std::shared_ptr<LateAnswer> later = nullptr;
  /// Let go of when a streamed or a late answer has ended, when its peer has gone before that (a peer that ends its
  /// sending side counts as gone) and, at the latest, before Server::Stop returns. So its destructor is the place to
  /// cancel what nobody waits for any more.
  std::shared_ptr<void> held = nullptr;
};

/// What a Status is on the wire: HTTP status and the members of `error`. The one place where codes are mapped.
struct WireError {
  int http_status = 500;
  std::string type;     // "invalid_request_error", ...
  std::string code;     // "context_length_exceeded", ...
  std::string message;  // cut where it quotes too much of a request; says nothing of files or the machine
  std::string param;
  int64_t retry_after_ms = 0;  // > 0: asking again helps, and not before
};
/// `retry_after_ms`: known by the caller; 0 = a second, where waiting helps at all.
WireError MapStatus(const Status& status, int64_t retry_after_ms = 0);
/// {"error":{"message","type","param","code"}} with the mapped HTTP status, Retry-After and retry-after-ms where
/// waiting helps and x-should-retry: false where it does not.
HttpResponse ErrorResponse(const Status& status, int64_t retry_after_ms = 0);

/// The same as a WebSocket event: {"type":"error","status","error"}.
std::string ErrorEvent(const Status& status);

/// Method and path pattern to handler. A pattern segment in braces matches one path segment: "/v1/conversations/{id}".
class Router {
 public:
  using Parameters = std::vector<std::string>;  // values of the braces, in order
  using Handler = std::function<HttpResponse(const HttpRequest&, const Parameters&)>;

  /// For a request without `scope` there is no such route.
  void Add(std::string method, std::string pattern, Handler handler, Scopes scope = Scopes::Chat());
  /// Values of the braces of this pattern, which was added, may hold slashes, written as "%2F". Elsewhere a value with
  /// an escape that could be read in two ways fits nothing.
  void AllowEscapedSlashes(const std::string& pattern);
  /// Requests of this very path may have bodies of so many bytes, whatever the limit of others is.
  void AllowBody(std::string path, int64_t bytes) { body_bytes_[std::move(path)] = bytes; }
  /// Requests of this very path are answered on the io threads: their handlers wait for nothing. All others run on the
  /// workers.
  void AnswerAtOnce(std::string path) { at_once_.insert(std::move(path)); }
  bool IsAnsweredAtOnce(const std::string& path) const { return at_once_.contains(path); }
  /// Requests of this method and pattern, added before, are answered while the server drains, as reads (GET, HEAD) are.
  void AnswerWhileDraining(std::string_view method, std::string_view pattern);
  bool IsAnsweredWhileDraining(const HttpRequest& request) const;
  /// The largest body of this request; `others` where nothing else is allowed.
  int64_t BodyLimit(const HttpRequest& request, int64_t others) const;
  /// The handler's answer; 404 for an unknown path, 405 with Allow for an unknown method. The first pattern that fits
  /// decides: "/v1/conversations/import", added first, is no "/v1/conversations/{id}" whatever the method. Any thread,
  /// after all Adds.
  HttpResponse Route(const HttpRequest& request) const;

  /// "GET /v1/models chat", for every route in the order of its adding.
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
  /// Sets the values of the braces if the path fits.
  static bool Match(const Entry& entry, const std::vector<std::string>& path, Parameters& values);
  /// The first entry whose pattern fits the path, whatever its method; entries_.end() if there is none.
  std::vector<Entry>::const_iterator FirstFor(const HttpRequest& request) const;
  std::vector<Entry> entries_;
  std::map<std::string, int64_t> body_bytes_;
  std::set<std::string> at_once_;
};

}  // namespace ringside
