#include "ws/openai/responses/responses_delivery.h"

#include <atomic>

#include "ws/content/response_objects.h"
#include "ws/openai/responses/responses_outbox.h"

namespace ringside {
namespace {

// Not the id of any connection: an HTTP answer receives its response's events regardless of other listeners.
constexpr uint64_t kNoConnection = UINT64_MAX;

class StreamSink final : public EventSink {
 public:
  explicit StreamSink(std::shared_ptr<Outbox> outbox)
      : events_(EventWriter("", EventWriter::Framing::kServerSentEvents), std::move(outbox)) {}

  const EventNumbers& numbers() const override { return kResponsesNumbers; }
  void OnEvent(const TurnEvent& event) override {
    events_.Push(event);
    if (event.kind == TurnEvent::Kind::kEnded) Finish();
  }
  void OnReplay(const ResponseCopies& responses, uint64_t from) override {
    events_.PushReplay(responses, from);
    if (!responses.back()->running()) Finish();
  }
  uint64_t connection() const override { return kNoConnection; }

 private:
  /// Ends the stream; the first call counts.
  /// THREAD: any.
  void Finish() {
    if (finished_.exchange(true)) return;
    events_.outbox().Push("data: [DONE]\n\n");
    events_.outbox().Close(Outbox::kEndOfBody, "");
  }

  EventOutbox events_;
  std::atomic<bool> finished_{false};
};

HttpResponse ObjectOf(const Response& response) {
  HttpResponse answer;
  answer.body = ResponseObject(response);
  return answer;
}

/// True if the client can only repeat its request: there is no answer that it could continue.
bool LeavesNothing(const Response& response) {
  const bool kept = response.stored || !response.conversation_id.empty();
  return response.status == ResponseStatus::kFailed || (response.interrupted() && !kept);
}

class EndSink final : public EventSink {
 public:
  explicit EndSink(WhenFailed when_failed) : when_failed_(when_failed) {}

  const EventNumbers& numbers() const override { return kResponsesNumbers; }
  void OnEvent(const TurnEvent& event) override {
    if (event.kind == TurnEvent::Kind::kEnded) Give(event.response);
  }
  void OnReplay(const ResponseCopies& responses, uint64_t) override {
    if (!responses.back()->running()) Give(responses.back());
  }
  uint64_t connection() const override { return kNoConnection; }
  const std::shared_ptr<LateAnswer>& answer() const { return answer_; }

 private:
  void Give(const std::shared_ptr<const Response>& response) {
    const bool error = when_failed_ == WhenFailed::kTellError && LeavesNothing(*response);
    answer_->Give([response, error] { return error ? ErrorResponse(response->error) : ObjectOf(*response); });
  }

  const WhenFailed when_failed_;
  const std::shared_ptr<LateAnswer> answer_ = std::make_shared<LateAnswer>();
};

}  // namespace

HttpResponse ResponseNow(const SessionTable& table, const Caller& caller, const std::string& id) {
  const auto response = table.GetResponse(caller, id);
  return response.ok() ? ObjectOf(**response) : ErrorResponse(response.status());
}

HttpResponse StreamEvents(SessionTable& table, const Caller& caller, const std::string& id, uint64_t from) {
  HttpResponse answer;
  answer.content_type = "text/event-stream";
  answer.stream = [&table, caller, id, from](std::shared_ptr<Outbox> outbox) {
    auto sink = std::make_shared<StreamSink>(outbox);
    if (!table.Replay(caller, id, from, sink).ok()) outbox->Close(1011, "the response was deleted", true);
    return sink;
  };
  return answer;
}

HttpResponse AwaitEnd(SessionTable& table, const Caller& caller, const std::string& id, WhenFailed when_failed) {
  const auto sink = std::make_shared<EndSink>(when_failed);
  if (const Status replayed = table.Replay(caller, id, 0, sink); !replayed.ok()) return ErrorResponse(replayed);
  HttpResponse answer;
  answer.later = sink->answer();
  answer.held = sink;
  return answer;
}

}  // namespace ringside
