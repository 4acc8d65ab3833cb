// An EventSink that records each event as a short line.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "session/event_sink.h"

namespace ringside {

class RecordingSink : public EventSink {
 public:
  explicit RecordingSink(uint64_t connection = 1) : connection_(connection) {}

  const EventNumbers& numbers() const override {
    static constexpr EventNumbers kNumbers{.answer = 2,
                                           .warm_up = 1,
                                           .opened = 2,
                                           .piece = 1,
                                           .message_ended = 3,
                                           .call_ended = 2,
                                           .ended = 4,
                                           .ended_bare = 1,
                                           .reasoning_opened = 1,
                                           .reasoning_piece = 1,
                                           .reasoning_ended = 1};
    return kNumbers;
  }
  void OnEvent(const TurnEvent& event) override {
    const Response& response = *event.response;
    switch (event.kind) {
      case TurnEvent::Kind::kBegun:
        return Write("begun", 0);
      case TurnEvent::Kind::kReasoningOpened:
        return Write("reasoning opened", numbers().Of(event.before));
      case TurnEvent::Kind::kReasoning:
        reasoning_ += event.text;
        return Write("reasoning", numbers().Of(event.before), event.text);
      case TurnEvent::Kind::kReasoningEnded:
        return Write(event.whole ? "reasoning ended" : "reasoning cut", numbers().Of(event.before), event.text);
      case TurnEvent::Kind::kOpened:
        return Write("opened", numbers().Of(event.before));
      case TurnEvent::Kind::kText:
        text_ += event.text;
        return Write("text", numbers().Of(event.before), event.text);
      case TurnEvent::Kind::kMessageEnded:
        return Write("message ended", numbers().Of(event.before));
      case TurnEvent::Kind::kCall:
        return Write("call", numbers().Of(event.before), event.name);
      case TurnEvent::Kind::kCallText:
        return Write("arguments", numbers().Of(event.before), event.text);
      case TurnEvent::Kind::kCallEnded:
        return Write(event.whole ? "call ended" : "call cut", numbers().Of(event.before), event.text);
      case TurnEvent::Kind::kEnded:
        return WriteEnd(response);
    }
  }
  void OnReplay(const ResponseCopies& responses, uint64_t from) override {
    for (const auto& response : responses) {
      const uint64_t first = numbers().Of(response->before);
      const uint64_t known = from > first ? from - first : 0;
      // A merged event may be partly known.
      if (known < (response->warm_up ? 1 : 2)) Write("begun", 0);
      const size_t reasoned = response->reasoning_ends.size();
      if (reasoned > 0 && known < 3) Write("reasoning opened", 2);
      for (size_t i = known > 3 ? known - 3 : 0; i < reasoned; ++i) {
        reasoning_ += response->reasoning_piece(i);
        Write("reasoning", 3 + i, response->reasoning_piece(i));
      }
      const uint64_t behind = reasoned == 0 ? 2 : 3 + reasoned + (response->reasoning_ended ? 1 : 0);
      if (response->reasoning_ended && known < behind) Write("reasoning ended", behind - 1, response->reasoning);
      const uint64_t first_piece = behind + 2;
      if (response->opened && known < first_piece) Write("opened", behind);
      for (size_t i = known > first_piece ? known - first_piece : 0; i < response->piece_ends.size(); ++i) {
        text_ += response->piece(i);
        Write("text", first_piece + i, response->piece(i));
      }
      if (!response->running() && known < numbers().Of(response->events())) WriteEnd(*response);
    }
  }
  void OnSnapshot(const std::shared_ptr<const Response>& response) override {
    Write("snapshot", numbers().Of(response->events()), response->text);
  }
  void OnResumed(const ResumeReply& reply) override {
    static constexpr const char* kReplays[] = {"events", "snapshot", "none"};
    reply_ = reply;
    lines_.push_back(std::string("resumed ") + kReplays[static_cast<size_t>(reply.replay)]);
  }
  void OnTakenOver(const std::string&) override { lines_.emplace_back("taken over"); }
  uint64_t connection() const override { return connection_; }

  const std::vector<std::string>& lines() const { return lines_; }
  const std::string& text() const { return text_; }
  const std::string& reasoning() const { return reasoning_; }
  const ResumeReply& reply() const { return reply_; }

 private:
  void Write(const std::string& what, uint64_t number, std::string_view text = {}) {
    lines_.push_back(what + ' ' + std::to_string(number) + (text.empty() ? "" : ' ' + std::string(text)));
  }
  void WriteEnd(const Response& response) {
    static constexpr const char* kStatus[] = {"in_progress", "completed", "incomplete", "cancelled", "failed"};
    const bool message = response.opened && response.call_steps.empty();
    const uint64_t events = message ? numbers().ended : numbers().ended_bare;
    Write("ended", numbers().Of(response.events()) - events, kStatus[static_cast<size_t>(response.status)]);
  }

  const uint64_t connection_;
  std::vector<std::string> lines_;
  std::string text_, reasoning_;
  ResumeReply reply_;
};

}  // namespace ringside
