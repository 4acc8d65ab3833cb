// Reception of one HTTP request: turns bytes into a message, checks its framing before the parser does, and measures
// the pace of its body. Owned by the HttpExchange of the request. THREAD: the connection's strand.
#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "ws/transport/http/chunk_lines.h"
#include "ws/transport/http/head_check.h"
#include "ws/transport/http/request_head.h"

namespace ringside {

class RequestReader {
 public:
  /// Longest line between chunks that may be incomplete.
  static constexpr size_t kMaxChunkLineBytes = ChunkLines::kMaxExtensionBytes + 64;

  RequestReader();

  /// True once the head has been parsed.
  bool has_head() const { return parser_.is_header_done(); }
  bool complete() const { return parser_.is_done(); }
  const HeadMessage& message() const { return parser_.get(); }
  size_t body_bytes() const { return message().body().size(); }
  std::string TakeBody() { return std::exchange(parser_.get().body(), std::string()); }

  /// As RequestHead::Read.
  RequestHead::Verdict ReadHead(std::string_view buffer) { return head_.Read(buffer); }
  const char* trouble() const { return head_.trouble(); }
  /// Parses `buffer`, whose head has been read. Returns the number of bytes parsed and sets `error` to the parser's
  /// verdict; need_more is no failure.
  /// ERRORS: invalid framing, out of memory.
  Result<size_t> Parse(std::string_view buffer, boost::system::error_code& error);

  /// True the first time it is called after the head has been parsed.
  bool BeginCheck() { return has_head() && !std::exchange(checked_, true); }
  bool checked() const { return checked_; }
  /// As CheckHead; prepares for the framing of the body.
  Result<HttpTarget> Check();
  /// Sets the largest body.
  /// ERRORS: the announced length is larger.
  Status LimitBody(uint64_t bytes);
  bool WantsContinue() const { return !complete() && message().version() == 11 && ExpectsContinue(message()); }
  /// True if the body has grown by enough for `time` since the last time this was true.
  bool KeepsPace(std::chrono::milliseconds time);

 private:
  RequestHead head_;
  boost::beast::http::request_parser<boost::beast::http::string_body> parser_;
  std::optional<ChunkedBuffer> chunks_;  // null unless the body is chunked
  bool checked_ = false;
  size_t paced_bytes_ = 0;  // of the body when KeepsPace was last true
};

/// The refusal of a request that the parser has rejected.
Status ParseFailure(const boost::system::error_code& error);

}  // namespace ringside
