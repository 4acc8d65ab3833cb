#include "clients/pull/http_get.h"

#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <cctype>
#include <limits>

#include "clients/models/ollama_manifest.h"
#include "clients/wire/transport/http_exchange.h"

namespace ringside::client {
namespace {

namespace http = boost::beast::http;
using Parser = http::response_parser<http::buffer_body>;
using Stop = std::optional<GetFailure>;

constexpr int kMaxRedirects = 8;
constexpr uint32_t kMaxHeaderBytes = 64 << 10;  // with a signed URL
constexpr size_t kPieceBytes = 1 << 20;
constexpr size_t kMaxTextBytes = 64u << 20;

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// `"abc"` or `W/"abc"` without the marks.
std::string Unquoted(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

/// One request of a chain of redirects.
class Hop {
 public:
  Hop(const WebUrl& url, const WebAccess& access)
      : url_(url),
        exchange_({.host = url.host, .port = url.port, .tls = url.tls, .ca_file = access.ca_file}, access.timeout) {
    parser_.header_limit(kMaxHeaderBytes);
    parser_.body_limit(std::numeric_limits<uint64_t>::max());
  }

  Stop Send(const GetRequest& request, const std::string& token) {
    HttpExchange::Request message;
    message.version(11);
    message.method(http::verb::get);
    message.target(url_.target);
    message.set(http::field::host, url_.Authority());
    message.set(http::field::user_agent, "ringside/" RINGSIDE_VERSION);
    message.set(http::field::connection, "close");
    message.set(http::field::accept_encoding, "identity");
    for (const auto& [name, value] : request.headers) message.set(name, value);
    if (!token.empty()) message.set(http::field::authorization, "Bearer " + token);
    auto error = exchange_.Send(message);
    if (!error) error = exchange_.ReadHeader(parser_);
    if (error) return GetFailure{"cannot reach " + url_.Authority() + ": " + exchange_.Explain(error)};
    return std::nullopt;
  }

  GetHeader Header() const {
    const auto& response = parser_.get();
    const auto text = [&](auto name) { return std::string(response[name]); };
    GetHeader header{.status = static_cast<int>(response.result_int()),
                     .host = url_.Authority(),
                     .etag = text(http::field::etag),
                     .content_range = text(http::field::content_range),
                     .retry_after = text(http::field::retry_after)};
    if (parser_.content_length()) header.length = *parser_.content_length();
    header.has_end = header.length || parser_.chunked();
    const std::string linked = Unquoted(response["X-Linked-Etag"]);
    if (IsSha256(linked)) header.linked_digest = linked;
    return header;
  }
  std::string Location() const { return std::string(parser_.get()[http::field::location]); }

  Stop ReadBody(const std::function<Outcome<Done>(std::string_view)>& on_body) {
    std::string piece(kPieceBytes, '\0');
    while (!parser_.is_done()) {
      auto& body = parser_.get().body();
      body.data = piece.data();
      body.size = piece.size();
      auto error = exchange_.ReadSome(parser_);
      if (error == http::error::need_buffer) error = {};
      const Outcome<Done> taken = on_body({piece.data(), piece.size() - body.size});
      if (!taken) return GetFailure{taken.failure().message, true};
      if (error == http::error::partial_message)
        return GetFailure{"the connection to " + url_.Authority() + " ended early"};
      if (error) return GetFailure{"the connection to " + url_.Authority() + " was lost: " + exchange_.Explain(error)};
    }
    return std::nullopt;
  }

 private:
  const WebUrl url_;
  HttpExchange exchange_;
  Parser parser_;
};

}  // namespace

std::string Sentence(std::string phrase) {
  const bool is_host = std::string_view(phrase).substr(0, phrase.find(' ')).find('.') != std::string_view::npos;
  if (!phrase.empty() && !is_host) phrase[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(phrase[0])));
  return phrase.ends_with('.') ? phrase : phrase + ".";
}

std::optional<GetFailure> Get(const GetRequest& request, const WebAccess& access, const GetHandlers& handlers) {
  WebUrl url = request.url;
  std::string linked_digest;
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    // Not in the clear, where every host on the way could read it.
    const bool trusted = url.SameOrigin(request.url) && (url.tls || url.IsLoopback());
    Hop hop(url, access);
    if (Stop stop = hop.Send(request, request.sends_token && trusted ? access.token : "")) return stop;
    GetHeader header = hop.Header();
    if (linked_digest.empty()) linked_digest = header.linked_digest;
    if (IsRedirect(header.status)) {
      const Outcome<WebUrl> next = FollowLocation(url, hop.Location());
      if (!next) return GetFailure{next.failure().message, true};
      url = *next;
      continue;
    }
    header.linked_digest = linked_digest;
    const Outcome<Done> accepted = handlers.on_header(header);
    if (!accepted) return GetFailure{accepted.failure().message, true};
    return hop.ReadBody(handlers.on_body);
  }
  return GetFailure{
      "the host " + request.url.Authority() + " redirects more than " + std::to_string(kMaxRedirects) + " times", true};
}

Outcome<GetAnswer> GetText(const GetRequest& request, const WebAccess& access) {
  GetAnswer answer;
  const auto on_header = [&](const GetHeader& header) -> Outcome<Done> {
    answer.status = header.status;
    return Done{};
  };
  const auto on_body = [&](std::string_view piece) -> Outcome<Done> {
    answer.body += piece;
    if (answer.body.size() > kMaxTextBytes) return Failure{"the answer of " + request.url.Authority() + " is too long"};
    return Done{};
  };
  const std::optional<GetFailure> stop = Get(request, access, {on_header, on_body});
  if (!stop) return answer;
  return Failure{Sentence(stop->message)};
}

}  // namespace ringside::client
