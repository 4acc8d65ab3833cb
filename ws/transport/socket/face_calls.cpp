#include "ws/transport/socket/face_calls.h"

#include <new>
#include <utility>

#include "base/log.h"

namespace ringside {

void FaceCalls::Identify(std::string client, const TraceContext& trace) {
  client_ = std::move(client);
  trace_ = trace;
}

void FaceCalls::Open(SocketFace face) {
  face_ = std::make_shared<SocketFace>(std::move(face));
  opening_ = face_->on_opened != nullptr;
}

void FaceCalls::Run(const std::function<void()>& call, Outbox& outbox) const {
  const LogTrace trace(trace_);
  try {
    call();
  } catch (const std::bad_alloc&) {
    LogError("a message could not be processed: out of memory");
    outbox.Push(ErrorEvent(Unavailable("The server has no memory left for this request.")));
  } catch (const std::exception& error) {
    LogError("a message caused an exception: {}", TypeOf(error));
    outbox.Close(1011, "internal error");
  }
}

void FaceCalls::Close() {
  const std::shared_ptr<SocketFace> face = std::exchange(face_, nullptr);
  try {
    if (face != nullptr && face->on_closed) face->on_closed();
  } catch (const std::exception& error) {
    LogError("a face failed to close: {}", TypeOf(error));
  }
}

}  // namespace ringside
