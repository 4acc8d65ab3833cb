#include "ws/transport/http/request_reader.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <new>

#include "ws/transport/http/http_refusals.h"

namespace ringside {
namespace {

namespace http = boost::beast::http;

// Minimum rate of an upload: this much must arrive within each request timeout.
constexpr int64_t kSlowestUploadBytesASecond = 8 << 10;

}  // namespace

RequestReader::RequestReader() {
  parser_.header_limit(2 * RequestHead::kMaxBytes);  // RequestHead enforces the real limit first
  parser_.body_limit(boost::none);                   // set once the path is known
}

Result<size_t> RequestReader::Parse(std::string_view buffer, boost::system::error_code& error) {
  if (chunks_ && !chunks_->Check(buffer)) return BadRequest(chunks_->trouble());
  size_t used = 0;
  try {
    used = parser_.put(boost::asio::buffer(buffer.data(), buffer.size()), error);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::exception&) {
    // This version of Beast throws for an oversized trailer.
    return BadRequest("This is not a valid HTTP request.");
  }
  if (chunks_) chunks_->Consume(used);
  return used;
}

Result<HttpTarget> RequestReader::Check() {
  ASSIGN_OR_RETURN(HttpTarget target, CheckHead(message()));
  if (message().chunked()) chunks_.emplace();
  return target;
}

Status RequestReader::LimitBody(uint64_t bytes) {
  if (parser_.content_length().value_or(0) > bytes) return TooLarge();
  parser_.body_limit(bytes);
  return Status::Ok();
}

bool RequestReader::KeepsPace(std::chrono::milliseconds time) {
  const size_t bytes = body_bytes();
  if (static_cast<int64_t>(bytes - paced_bytes_) * 1000 < kSlowestUploadBytesASecond * time.count()) return false;
  paced_bytes_ = bytes;
  return true;
}

Status ParseFailure(const boost::system::error_code& error) {
  if (error == http::error::body_limit) return TooLarge();
  return BadRequest("This is not a valid HTTP request: " + error.message() + ".");
}

}  // namespace ringside
