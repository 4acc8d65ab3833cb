// Writes the events of one Realtime response to the connection's outbox; they are serialized on the connection's strand
// when popped. Owned by the socket; the session holds it weakly.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "session/event_sink.h"
#include "ws/realtime/realtime_events.h"
#include "ws/transport/outbox.h"

namespace ringside {

class RealtimeSink final : public EventSink {
 public:
  /// Called with the finished response, under the session's lock. `tell` notifies the client, which may request the
  /// next response at once.
  using Ended = std::function<void(const Response&, const std::function<void()>& tell)>;
  RealtimeSink(std::shared_ptr<const RealtimeWriter> writer, std::shared_ptr<Outbox> outbox, RealtimeAsked asked,
               uint64_t connection, Ended ended);

  // Numbering of this protocol only, because nothing is replayed.
  const EventNumbers& numbers() const override;
  void OnEvent(const TurnEvent& event) override;
  void OnReplay(const ResponseCopies&, uint64_t) override {}
  uint64_t connection() const override { return connection_; }
  /// True from just before `ended` is called.
  bool ended() const { return has_ended_; }

 private:
  const std::shared_ptr<const RealtimeWriter> writer_;
  const std::shared_ptr<Outbox> outbox_;
  const std::shared_ptr<const RealtimeAsked> asked_;
  const uint64_t connection_, merge_key_;
  const Ended ended_;
  std::atomic<bool> has_ended_{false};
};

}  // namespace ringside
