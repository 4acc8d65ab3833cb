#include "ws/transport/http/http_refusals.h"

#include <atomic>
#include <exception>
#include <new>

#include "base/log.h"

namespace ringside {

Status TooLarge() { return InvalidArgument("The request's body is too large.", "", "request_too_large"); }

Status TooManyBodies() { return Unavailable("Too many large requests are being read."); }

Status TooManyAnswers() { return Unavailable("Too many large responses are waiting to be read."); }

Status OutOfMemory() { return Unavailable("The server has no memory left for this request."); }

Status BadRequest(std::string why) { return InvalidArgument(std::move(why), "", "bad_request"); }

Status HeadersTooLarge() { return InvalidArgument("The request's headers are too large.", "", "headers_too_large"); }

Status AdmissionStatus(ConnectionPlaces::Verdict verdict) {
  switch (verdict) {
    case ConnectionPlaces::Verdict::kTaken:
      return Status::Ok();
    case ConnectionPlaces::Verdict::kOwnerFull:
      return Status(StatusCode::kOverloaded,
                    "All connections that this key's owner may have open are busy; close one or wait.", "",
                    "connection_limit_exceeded");
    case ConnectionPlaces::Verdict::kFull:
      break;
  }
  return InvalidArgument("The server has no room for another connection.", "", "too_many_connections");
}

int64_t ScatteredRetryMs() {
  static std::atomic<uint32_t> last{0};
  constexpr uint32_t kStep = 2654435769u;  // 2^32 / golden ratio: spreads consecutive values
  return 1'000 + static_cast<int64_t>((last.fetch_add(kStep) >> 20) % 4'000);
}

HttpResponse PreflightAnswer() {
  HttpResponse response;
  response.status = 204;
  response.headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
                      {"Access-Control-Allow-Headers", "Authorization, Content-Type, *"},
                      {"Access-Control-Max-Age", "600"}};
  return response;
}

HttpResponse UnauthorizedAnswer(const Status& why) {
  HttpResponse response = ErrorResponse(why);
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse RevokedAnswer() {
  return ErrorResponse(InvalidArgument("The API key is no longer valid.", "", "invalid_api_key"));
}

HttpResponse StoppingAnswer() { return ErrorResponse(Unavailable("The server is stopping."), ScatteredRetryMs()); }

HttpResponse AnswerOrRefuse(const HttpRequest& request, const std::function<HttpResponse()>& make) {
  const LogTrace trace(request.trace);
  try {
    return make();
  } catch (const std::bad_alloc&) {
    LogError("{} {} failed: out of memory", request.method, request.path);
    return ErrorResponse(OutOfMemory());
  } catch (const std::exception& error) {
    LogError("{} {} failed: {}", request.method, request.path, TypeOf(error));
    return ErrorResponse(IoError("The server failed to answer this request."));
  }
}

Status AdmitSocket(const SocketRoute& route, const HttpRequest& request) {
  const LogTrace trace(request.trace);
  try {
    return route.admit(request);
  } catch (const std::exception& error) {
    LogError("an upgrade of {} failed: {}", request.path, TypeOf(error));
    return IoError("The server failed to answer this request.");
  }
}

}  // namespace ringside
