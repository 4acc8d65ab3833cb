// An EventSink that writes down what it hears, one short line per event.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "session/event_sink.h"

namespace ringside {

class RecordingSink final : public EventSink {
 public:
  explicit RecordingSink(uint64_t connection = 1) : connection_(connection) {}

  void OnEvent(const TurnEvent& event) override {
    static constexpr const char* kNames[] = {"created", "in_progress", "opened", "delta", "end", "snapshot"};
    std::string line = kNames[static_cast<size_t>(event.kind)];
    line += ' ' + std::to_string(event.sequence);
    if (event.kind == TurnEvent::Kind::kDelta || event.kind == TurnEvent::Kind::kSnapshot) {
      line += ' ' + std::string(event.text);
      if (event.kind == TurnEvent::Kind::kDelta) text_ += event.text;
    }
    if (event.kind == TurnEvent::Kind::kEnd) {
      static constexpr const char* kStatus[] = {"in_progress", "completed", "incomplete", "cancelled", "failed"};
      line += std::string(" ") + kStatus[static_cast<size_t>(event.response.status)];
    }
    lines_.push_back(line);
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
  const ResumeReply& reply() const { return reply_; }

 private:
  const uint64_t connection_;
  std::vector<std::string> lines_;
  std::string text_;
  ResumeReply reply_;
};

}  // namespace ringside
