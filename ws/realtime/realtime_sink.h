// Hears of one response of a Realtime session and brings it into the connection's outbox; events become text on the
// connection's strand, when they are taken. Owned by the socket; the session holds it weakly.
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
  /// `ended` is called with the response as it ended, under the session's lock.
  RealtimeSink(std::shared_ptr<const RealtimeWriter> writer, std::shared_ptr<Outbox> outbox, RealtimeAsked asked,
               uint64_t connection, std::function<void(const Response&)> ended);

  // No other sink shares these numbers: nothing is replayed here.
  const EventNumbers& numbers() const override;
  void OnEvent(const TurnEvent& event) override;
  void OnReplay(const ResponseCopies&, uint64_t) override {}
  uint64_t connection() const override { return connection_; }
  /// True before `ended` is called, and from then on.
  bool ended() const { return has_ended_; }

 private:
  const std::shared_ptr<const RealtimeWriter> writer_;
  const std::shared_ptr<Outbox> outbox_;
  const std::shared_ptr<const RealtimeAsked> asked_;
  const uint64_t connection_, merge_key_;
  const std::function<void(const Response&)> ended_;
  std::atomic<bool> has_ended_{false};
};

}  // namespace ringside
