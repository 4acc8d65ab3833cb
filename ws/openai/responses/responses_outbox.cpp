#include "ws/openai/responses/responses_outbox.h"

#include <atomic>
#include <deque>
#include <utility>

namespace ringside {
namespace {

using Writer = std::shared_ptr<const EventWriter>;
using ResponseCopy = std::shared_ptr<const Response>;

size_t BytesOf(std::span<const OutputToken> tokens) {
  size_t bytes = 0;
  for (const OutputToken& token : tokens) bytes += sizeof(OutputToken) + token.top.size() * sizeof(TokenLogprob);
  return bytes;
}

/// A queued piece of text.
class PieceEntry final : public OutboxEntry {
 public:
  PieceEntry(Writer writer, const TurnEvent& event, uint64_t number, uint64_t merge_key)
      : writer_(std::move(writer)),
        response_(event.response),
        index_(event.output_index()),
        text_(event.text),
        tokens_(event.tokens),
        number_(number),
        merge_key_(event.tokens.empty() ? merge_key : 0) {}
  std::string Next() override {
    done_ = true;
    return writer_->Delta(*response_, index_, number_, text_, tokens_);
  }
  bool done() const override { return done_; }
  size_t bytes() const override { return sizeof(*this) + text_.size() + BytesOf(tokens_); }
  uint64_t merge_key() const override { return merge_key_; }
  void Absorb(OutboxEntry& newer) override {
    const auto& next = static_cast<PieceEntry&>(newer);  // only this writer uses the key
    text_ += next.text_;
    number_ = next.number_;
  }

 private:
  const Writer writer_;
  const ResponseCopy response_;
  const size_t index_;
  std::string text_;
  const std::vector<OutputToken> tokens_;
  uint64_t number_;
  const uint64_t merge_key_;
  bool done_ = false;
};

/// Entries for EventWriter::Step: the reasoning, the message's start, tool calls.
class StepEntry final : public OutboxEntry {
 public:
  StepEntry(Writer writer, TurnEvent event, uint64_t number, uint64_t merge_key)
      : writer_(std::move(writer)),
        event_(std::move(event)),
        number_(number),
        merge_key_(IsPiece(event_.kind) ? merge_key : 0),
        count_(EventWriter::StepsOf(event_.kind)) {}
  std::string Next() override {
    std::string text = writer_->Step(event_, number_ + taken_, taken_);
    ++taken_;
    return text;
  }
  bool done() const override { return taken_ == count_; }
  size_t bytes() const override { return sizeof(*this) + event_.text.size(); }
  uint64_t merge_key() const override { return merge_key_; }
  // Adjacent pieces belong to the same call or reasoning, because other events separate different ones.
  void Absorb(OutboxEntry& newer) override {
    const auto& next = static_cast<StepEntry&>(newer);
    event_.text += next.event_.text;
    number_ = next.number_;
  }

 private:
  static bool IsPiece(TurnEvent::Kind kind) {
    return kind == TurnEvent::Kind::kCallText || kind == TurnEvent::Kind::kReasoning;
  }

  const Writer writer_;
  TurnEvent event_;
  uint64_t number_;
  const uint64_t merge_key_;
  const size_t count_;
  size_t taken_ = 0;
};

/// Events `from` to `to` of a response.
struct EventRange {
  ResponseCopy response;
  uint64_t from = 0, to = 0;
};

class RangesEntry final : public OutboxEntry {
 public:
  RangesEntry(Writer writer, std::deque<EventRange> ranges, bool bulk)
      : writer_(std::move(writer)), ranges_(std::move(ranges)), bulk_(bulk) {
    for (const EventRange& range : ranges_) bytes_ += static_cast<size_t>(range.response->bytes());
  }
  std::string Next() override {
    EventRange& range = ranges_.front();
    const bool last = range.from + 1 == range.to && !range.response->running();
    if (last && !std::exchange(eviction_reported_, true) && writer_->framing() == EventWriter::Framing::kMessages) {
      if (std::string evicted = writer_->Evicted(*range.response); !evicted.empty()) return evicted;
    }
    std::string text = writer_->Numbered(*range.response, range.from);
    if (++range.from == range.to) {
      bytes_ -= static_cast<size_t>(range.response->bytes());
      ranges_.pop_front();
      eviction_reported_ = false;
    }
    return text;
  }
  bool done() const override { return ranges_.empty(); }
  size_t bytes() const override { return bytes_; }
  bool bulk() const override { return bulk_; }

 private:
  const Writer writer_;
  std::deque<EventRange> ranges_;
  const bool bulk_;
  size_t bytes_ = 1;
  bool eviction_reported_ = false;
};

class SnapshotEntry final : public OutboxEntry {
 public:
  SnapshotEntry(Writer writer, ResponseCopy response) : writer_(std::move(writer)), response_(std::move(response)) {}
  std::string Next() override {
    done_ = true;
    return writer_->Snapshot(*response_);
  }
  bool done() const override { return done_; }
  size_t bytes() const override { return static_cast<size_t>(response_->bytes()); }
  bool bulk() const override { return true; }

 private:
  const Writer writer_;
  const ResponseCopy response_;
  bool done_ = false;
};

/// Sequence numbers of `event` within its response.
EventRange RangeOf(const TurnEvent& event) {
  const EventNumbers& numbers = kResponsesNumbers;
  const uint64_t first = numbers.Of(event.before);
  switch (event.kind) {
    case TurnEvent::Kind::kBegun:
      return {event.response, 0, numbers.Of(event.response->events())};
    case TurnEvent::Kind::kMessageEnded:
      return {event.response, first, first + numbers.message_ended};
    case TurnEvent::Kind::kEnded: {
      const EventCounts counts = event.response->events();
      const uint64_t behind = numbers.Of(counts);
      return {event.response, behind - (counts.ended > 0 ? numbers.ended : numbers.ended_bare), behind};
    }
    default:
      return {};  // StepEntry and PieceEntry write the others
  }
}

}  // namespace

EventOutbox::EventOutbox(EventWriter writer, std::shared_ptr<Outbox> outbox)
    : writer_(std::make_shared<const EventWriter>(std::move(writer))), outbox_(std::move(outbox)), merge_key_([] {
        static std::atomic<uint64_t> next{0};
        return next += 2;  // one for text, one for Step's events
      }()) {}

void EventOutbox::Push(const TurnEvent& event) {
  const uint64_t number = kResponsesNumbers.Of(event.before);
  switch (event.kind) {
    case TurnEvent::Kind::kText:
      return outbox_->Push(std::make_unique<PieceEntry>(writer_, event, number, merge_key_));
    case TurnEvent::Kind::kBegun:
    case TurnEvent::Kind::kMessageEnded:
    case TurnEvent::Kind::kEnded:
      break;
    default:
      return outbox_->Push(std::make_unique<StepEntry>(writer_, event, number, merge_key_ + 1));
  }
  EventRange range = RangeOf(event);
  // Each event at the end may contain the whole answer.
  const bool bulk = event.kind == TurnEvent::Kind::kEnded;
  outbox_->Push(std::make_unique<RangesEntry>(writer_, std::deque{std::move(range)}, bulk));
}

void EventOutbox::PushReplay(const ResponseCopies& responses, uint64_t from) {
  std::deque<EventRange> ranges;
  for (const ResponseCopy& response : responses) {
    const uint64_t first = kResponsesNumbers.Of(response->before);
    const uint64_t count = kResponsesNumbers.Of(response->events());
    const uint64_t known = from > first ? from - first : 0;
    if (known < count) ranges.push_back({response, known, count});
  }
  if (!ranges.empty()) outbox_->Push(std::make_unique<RangesEntry>(writer_, std::move(ranges), true));
}

void EventOutbox::PushSnapshot(const std::shared_ptr<const Response>& response) {
  outbox_->Push(std::make_unique<SnapshotEntry>(writer_, response));
}

void EventOutbox::PushQueued(const Response& response, int64_t position) {
  outbox_->Push(writer_->Queued(response, position));
}

}  // namespace ringside
