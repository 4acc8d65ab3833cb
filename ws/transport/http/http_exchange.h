// State of one HTTP request, from its first byte until it is answered. Owned by its HttpConnection, which starts each
// request with a new one.
// THREAD: the connection's strand; a worker reads it during the request's call.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/trace_context.h"
#include "ws/transport/http/http_text.h"
#include "ws/transport/http/request_reader.h"
#include "ws/transport/server.h"

namespace ringside {

/// Ids of one request: its own and those of its trace.
class RequestIds {
 public:
  /// Starts a new trace.
  RequestIds() : digits_(MakeRequestDigits()), request_id_("req_" + digits_) { Join(""); }
  /// Continues the trace of the caller's header `traceparent`.
  void Join(std::string_view header) {
    trace_ = JoinTrace(header, digits_);
    traceparent_ = Traceparent(trace_);
  }
  const std::string& request_id() const { return request_id_; }
  const std::string& traceparent() const { return traceparent_; }
  const TraceContext& trace() const { return trace_; }

 private:
  const std::string digits_, request_id_;
  TraceContext trace_;
  std::string traceparent_;
};

struct HttpExchange {
  RequestReader reader;
  RequestIds ids;
  HttpTarget target;                       // until `request` is made
  std::shared_ptr<const Service> service;  // the service that admitted the request
  HttpRequest request;
  std::string allow_origin;
  bool upgrade = false, open_path = false;
  std::chrono::milliseconds refusal_delay{0};
};

}  // namespace ringside
