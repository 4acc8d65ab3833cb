// Queues turn events in a connection's outbox; they are serialized on the connection's strand when popped. Owned by an
// EventSink; called under a session's lock.
#pragma once

#include <cstdint>
#include <memory>

#include "session/event_sink.h"
#include "ws/openai/responses/responses_events.h"
#include "ws/transport/outbox.h"

namespace ringside {

class EventOutbox {
 public:
  EventOutbox(EventWriter writer, std::shared_ptr<Outbox> outbox);

  /// Queued pieces of text may be merged unless they carry logprobs.
  void Push(const TurnEvent& event);
  /// Queues the events of these responses from session-wide number `from` on.
  void PushReplay(const ResponseCopies& responses, uint64_t from);
  void PushSnapshot(const std::shared_ptr<const Response>& response);
  void PushQueued(const Response& response, int64_t position);
  Outbox& outbox() const { return *outbox_; }

 private:
  const std::shared_ptr<const EventWriter> writer_;
  const std::shared_ptr<Outbox> outbox_;
  const uint64_t merge_key_;
};

}  // namespace ringside
