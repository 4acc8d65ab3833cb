#include "ws/realtime/realtime_sink.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <utility>

namespace ringside {
namespace {

class EventEntry final : public OutboxEntry {
 public:
  EventEntry(std::shared_ptr<const RealtimeWriter> writer, std::shared_ptr<const RealtimeAsked> asked, TurnEvent event,
             uint64_t merge_key)
      : writer_(std::move(writer)), asked_(std::move(asked)), event_(std::move(event)), merge_key_(merge_key) {}

  std::string Next() override {
    if (!events_) {
      std::vector<std::string> made = writer_->Events(event_, *asked_);
      events_.emplace(std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
    }
    std::string next = std::move(events_->front());
    events_->pop_front();
    return next;
  }
  bool done() const override { return events_ && events_->empty(); }
  size_t bytes() const override {
    const bool whole = event_.kind == TurnEvent::Kind::kEnded || event_.kind == TurnEvent::Kind::kMessageEnded;
    return sizeof(*this) + event_.text.size() + (whole ? static_cast<size_t>(event_.response->bytes()) : 0);
  }
  // Each event at the end contains the whole answer.
  bool bulk() const override { return event_.kind == TurnEvent::Kind::kEnded; }
  uint64_t merge_key() const override { return merge_key_; }
  void Absorb(OutboxEntry& newer) override { event_.text += static_cast<EventEntry&>(newer).event_.text; }

 private:
  const std::shared_ptr<const RealtimeWriter> writer_;
  const std::shared_ptr<const RealtimeAsked> asked_;
  TurnEvent event_;
  const uint64_t merge_key_;
  std::optional<std::deque<std::string>> events_;  // set when the first is popped
};

uint64_t NextMergeKey() {
  static std::atomic<uint64_t> next{0};
  return ++next;
}

}  // namespace

RealtimeSink::RealtimeSink(std::shared_ptr<const RealtimeWriter> writer, std::shared_ptr<Outbox> outbox,
                           RealtimeAsked asked, uint64_t connection, Ended ended)
    : writer_(std::move(writer)),
      outbox_(std::move(outbox)),
      asked_(std::make_shared<const RealtimeAsked>(std::move(asked))),
      connection_(connection),
      merge_key_(NextMergeKey()),
      ended_(std::move(ended)) {}

const EventNumbers& RealtimeSink::numbers() const {
  static constexpr EventNumbers kNumbers;
  return kNumbers;
}

void RealtimeSink::OnEvent(const TurnEvent& event) {
  // Pieces of text or arguments may have other events between them.
  const bool piece = event.kind == TurnEvent::Kind::kText || event.kind == TurnEvent::Kind::kCallText;
  const uint64_t merge_key = piece ? merge_key_ : 0;
  const auto tell = [&] { outbox_->Push(std::make_unique<EventEntry>(writer_, asked_, event, merge_key)); };
  // The API has no events for reasoning.
  static constexpr TurnEvent::Kind kNotTold[] = {TurnEvent::Kind::kReasoningOpened, TurnEvent::Kind::kReasoning,
                                                 TurnEvent::Kind::kReasoningEnded};
  if (std::ranges::find(kNotTold, event.kind) != std::end(kNotTold)) return;
  if (event.kind != TurnEvent::Kind::kEnded) return tell();
  has_ended_ = true;
  ended_(*event.response, tell);
}

}  // namespace ringside
