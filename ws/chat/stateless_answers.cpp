#include "ws/chat/stateless_answers.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "session/ids.h"
#include "ws/content/event_numbering.h"
#include "ws/fields/timeline_key.h"

namespace ringside {
namespace {

constexpr uint64_t kMergeKeys = 4;  // per choice: more than the kinds of pieces

/// A queued piece of text or reasoning.
class PieceEntry final : public OutboxEntry {
 public:
  PieceEntry(std::shared_ptr<const AnswerWriter> format, size_t choice, const TurnEvent& event, size_t offset,
             size_t tokens_before, uint64_t merge_key)
      : format_(std::move(format)),
        reasoning_(event.kind == TurnEvent::Kind::kReasoning),
        choice_(choice),
        index_(event.output_index()),
        text_(event.text),
        tokens_(event.tokens),
        offset_(offset),
        input_tokens_(event.response->input_tokens),
        tokens_before_(tokens_before),
        merge_key_(event.tokens.empty() ? merge_key : 0) {}
  std::string Next() override {
    done_ = true;
    const ChoicePiece piece{choice_, index_, text_, tokens_, offset_, input_tokens_, tokens_before_};
    return reasoning_ ? format_->ReasoningPiece(piece) : format_->Piece(piece);
  }
  bool done() const override { return done_; }
  size_t bytes() const override {
    size_t sum = sizeof(*this) + text_.size();
    for (const OutputToken& token : tokens_) sum += sizeof(OutputToken) + token.top.size() * sizeof(TokenLogprob);
    return sum;
  }
  uint64_t merge_key() const override { return merge_key_; }
  void Absorb(OutboxEntry& newer) override { text_ += static_cast<PieceEntry&>(newer).text_; }

 private:
  const std::shared_ptr<const AnswerWriter> format_;
  const bool reasoning_;
  const size_t choice_, index_;
  std::string text_;
  const std::vector<OutputToken> tokens_;
  const size_t offset_;
  const int64_t input_tokens_;
  const size_t tokens_before_;
  const uint64_t merge_key_;
  bool done_ = false;
};

/// A queued piece of a tool call's arguments.
class CallPieceEntry final : public OutboxEntry {
 public:
  CallPieceEntry(std::shared_ptr<const AnswerWriter> format, size_t choice, TurnEvent event, uint64_t merge_key)
      : format_(std::move(format)), choice_(choice), event_(std::move(event)), merge_key_(merge_key) {}
  std::string Next() override {
    done_ = true;
    return format_->Call(choice_, event_);
  }
  bool done() const override { return done_; }
  size_t bytes() const override { return sizeof(*this) + event_.text.size(); }
  uint64_t merge_key() const override { return merge_key_; }
  void Absorb(OutboxEntry& newer) override { event_.text += static_cast<CallPieceEntry&>(newer).event_.text; }

 private:
  const std::shared_ptr<const AnswerWriter> format_;
  const size_t choice_;
  TurnEvent event_;
  const uint64_t merge_key_;
  bool done_ = false;
};

class Answers : public std::enable_shared_from_this<Answers> {
 public:
  Answers(const ChatService& service, const HttpRequest& asked, StatelessRequest request,
          std::shared_ptr<const AnswerWriter> format)
      : service_(service),
        caller_{asked.principal, RandomBits(), asked.trace},
        request_(std::move(request)),
        format_(std::move(format)),
        ended_(request_.prompts.size() * static_cast<size_t>(request_.choices)) {
    for (TurnSpec& prompt : request_.prompts) NoteTimelineKey(asked, &prompt);
    if (!request_.stream) late_ = std::make_shared<LateAnswer>();
  }

  HttpResponse Begin() {
    const Status status = StartMore();
    if (!status.ok()) return Refusal(status);
    HttpResponse answer;
    answer.held = std::make_shared<Held>(shared_from_this());
    if (!request_.stream) {
      answer.later = late_;
      return answer;
    }
    answer.content_type = format_->stream_type();
    answer.stream = [self = shared_from_this()](const std::shared_ptr<Outbox>& outbox) {
      self->Attach(outbox);
      return std::shared_ptr<void>();
    };
    return answer;
  }

 private:
  /// Cancels the answers when the HTTP response or its client is gone.
  class Held {
   public:
    explicit Held(std::shared_ptr<Answers> answers) : answers_(std::move(answers)) {}
    ~Held() { answers_->Leave(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    const std::shared_ptr<Answers> answers_;
  };

  /// Receives one choice's events.
  class Sink final : public EventSink {
   public:
    Sink(const std::shared_ptr<Answers>& answers, size_t choice) : answers_(answers), choice_(choice) {}
    const EventNumbers& numbers() const override { return kResponsesNumbers; }
    void OnEvent(const TurnEvent& event) override {
      if (const auto answers = answers_.lock()) answers->OnEvent(choice_, event);
    }
    void OnReplay(const ResponseCopies&, uint64_t) override {}  // never called: nothing is requested twice
    uint64_t connection() const override { return UINT64_MAX; }

   private:
    const std::weak_ptr<Answers> answers_;
    const size_t choice_;
  };

  size_t PromptOf(size_t choice) const { return choice / static_cast<size_t>(request_.choices); }
  bool IsFirst(size_t choice) const { return choice % static_cast<size_t>(request_.choices) == 0; }

  /// The next choice to start. Later choices of a prompt wait for the first one's prefill, which they share.
  std::optional<size_t> DequeueNext() {
    std::lock_guard lock(mutex_);
    if (running_ >= request_.in_flight || closed_) return std::nullopt;
    if (!put_off_.empty()) {
      ++running_;
      const size_t choice = put_off_.back();
      put_off_.pop_back();
      return choice;
    }
    if (next_ == ended_.size() || (!IsFirst(next_) && spoken_ <= PromptOf(next_))) return std::nullopt;
    ++running_;
    return next_++;
  }

  Status StartMore() {
    while (const auto choice = DequeueNext()) {
      TurnSpec spec = request_.prompts[PromptOf(*choice)];
      spec.sampling.seed += *choice % static_cast<uint64_t>(request_.choices);
      spec.may_branch = !IsFirst(*choice);
      spec.admitted = *choice > 0;
      const auto sink = std::make_shared<Sink>(shared_from_this(), *choice);
      {
        std::lock_guard lock(mutex_);
        sinks_.push_back(sink);
      }
      const Result<TurnTicket> ticket = service_.table.StartTurn(caller_, std::move(spec), sink);
      if (!ticket.ok()) {
        if (PutOff(*choice, ticket.status())) return Status::Ok();
        Fail(ticket.status());
        return ticket.status();
      }
      std::lock_guard lock(mutex_);
      ids_.push_back(ticket->response_id);
      // The client left while the turn was being started.
      if (closed_) CancelLater();
    }
    return Status::Ok();
  }

  /// The owner's limit of turns is reached: retries this one when another of the request has ended.
  bool PutOff(size_t choice, const Status& why) {
    std::lock_guard lock(mutex_);
    if (why.code() != StatusCode::kOverloaded || running_ < 2) return false;
    --running_;
    put_off_.push_back(choice);
    return true;
  }

  void StartMoreLater() {
    service_.table.Post([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      const Status accepted = self->service_.run_on_worker(self->caller_.principal, 0, [weak] {
        if (const auto alive = weak.lock()) (void)alive->StartMore();
      });
      if (!accepted.ok()) self->Fail(accepted);
    });
  }

  /// REQUIRES: the session's lock is held.
  void OnEvent(size_t choice, const TurnEvent& event) {
    std::unique_lock lock(mutex_);
    if (closed_) return;
    switch (event.kind) {
      case TurnEvent::Kind::kBegun:
        return;
      case TurnEvent::Kind::kReasoningOpened:
      case TurnEvent::Kind::kReasoning:
      case TurnEvent::Kind::kReasoningEnded:
        return OnReasoning(choice, event);
      case TurnEvent::Kind::kOpened:
        return OnOpened(choice, event);
      case TurnEvent::Kind::kText:
        OnText(choice, event);
        return;
      case TurnEvent::Kind::kMessageEnded:
        return Push(format_->EndText(choice, event.output_index()));
      case TurnEvent::Kind::kCall:
      case TurnEvent::Kind::kCallText:
      case TurnEvent::Kind::kCallEnded:
        return OnCall(choice, event);
      case TurnEvent::Kind::kEnded:
        break;
    }
    if (event.response->status == ResponseStatus::kFailed || event.response->interrupted()) {
      lock.unlock();
      return Fail(event.response->error);
    }
    BeginOnce(choice, *event.response, HasText(*event.response));
    const std::span<const TokenId> ids = event.response->output_ids;
    const size_t told = std::min(told_tokens_[choice], ids.size());
    if (told < ids.size()) Push(format_->Rest(choice, ids.subspan(told)));
    Push(format_->End(choice, *event.response));
    ended_[choice] = event.response;
    --running_;
    Spoke(choice);
    if (++ended_count_ == ended_.size()) return Finish();
    if (next_ < ended_.size() || !put_off_.empty()) StartMoreLater();
  }

  void BeginOnce(size_t choice, const Response& response, bool has_text) {
    if (begun_[choice]) return;
    begun_[choice] = true;
    Push(format_->Begin(choice, response, has_text));
  }

  void OnReasoning(size_t choice, const TurnEvent& event) {
    if (Spoke(choice) && request_.choices > 1) StartMoreLater();
    BeginOnce(choice, *event.response, false);
    if (event.kind != TurnEvent::Kind::kReasoning) {
      Push(format_->Reasoning(choice, event));
    } else if (request_.stream && format_->streams_reasoning()) {
      Push(std::make_unique<PieceEntry>(format_, choice, event, 0, told_tokens_[choice], kMergeKeys * choice + 3));
      told_tokens_[choice] += event.tokens.size();
      return;
    }
    SendIds(choice, event);
  }

  /// Sends the ids of an event without text.
  void SendIds(size_t choice, const TurnEvent& event) {
    if (event.tokens.empty()) return;
    std::vector<TokenId> ids;
    for (const OutputToken& token : event.tokens) ids.push_back(token.id);
    told_tokens_[choice] += ids.size();
    Push(format_->Rest(choice, ids));
  }

  void OnOpened(size_t choice, const TurnEvent& event) {
    begun_[choice] ? Push(format_->OpenText(choice, event.output_index())) : BeginOnce(choice, *event.response, true);
    SendIds(choice, event);
  }

  void OnCall(size_t choice, const TurnEvent& event) {
    if (Spoke(choice) && request_.choices > 1) StartMoreLater();
    BeginOnce(choice, *event.response, false);
    if (event.kind != TurnEvent::Kind::kCallText) return Push(format_->Call(choice, event));
    if (!request_.stream || !format_->streams_arguments(event)) return;
    Push(std::make_unique<CallPieceEntry>(format_, choice, event, kMergeKeys * choice + 2));
  }

  void OnText(size_t choice, const TurnEvent& event) {
    if (Spoke(choice) && request_.choices > 1) StartMoreLater();
    if (!request_.stream) return;
    size_t& offset = offsets_[choice];
    Push(std::make_unique<PieceEntry>(format_, choice, event, offset, told_tokens_[choice], kMergeKeys * choice + 1));
    offset += CountCharacters(event.text);
    told_tokens_[choice] += event.tokens.size();
  }

  /// Notes that a prompt has been computed; true the first time.
  bool Spoke(size_t choice) {
    if (!IsFirst(choice) || spoken_ > PromptOf(choice)) return false;
    spoken_ = PromptOf(choice) + 1;
    return true;
  }

  void Push(std::string text) {
    if (!request_.stream || text.empty()) return;
    if (outbox_ != nullptr) return outbox_->Push(std::move(text));
    early_.push_back([text = std::move(text)](Outbox& outbox) { outbox.Push(text); });
  }
  void Push(std::unique_ptr<OutboxEntry> entry) {
    if (outbox_ != nullptr) return outbox_->Push(std::move(entry));
    early_.push_back([entry = std::make_shared<std::unique_ptr<OutboxEntry>>(std::move(entry))](Outbox& outbox) {
      outbox.Push(std::move(*entry));
    });
  }

  void Attach(const std::shared_ptr<Outbox>& outbox) {
    std::lock_guard lock(mutex_);
    outbox_ = outbox;
    for (const auto& push : early_) push(*outbox);
    early_.clear();
    if (closed_) outbox->Close(Outbox::kEndOfBody, "");
  }

  void Finish() {
    closed_ = true;
    if (request_.stream) {
      Push(format_->Finish(ended_));
      if (outbox_ != nullptr) outbox_->Close(Outbox::kEndOfBody, "");
      return;
    }
    late_->Give([format = format_, ended = ended_] {
      HttpResponse answer;
      answer.body = format->Whole(ended);
      return answer;
    });
  }

  void Fail(const Status& status) {
    std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    CancelLater();
    if (request_.stream) {
      Push(format_->Failure(status));
      if (outbox_ != nullptr) outbox_->Close(Outbox::kEndOfBody, "");
      return;
    }
    late_->Give([refusal = Refusal(status)] { return refusal; });
  }

  HttpResponse Refusal(const Status& status) const {
    return format_->Refusal(Renamed(status), RetryAfterMs(service_.retry_after_ms, status, caller_.principal));
  }

  /// Uses this protocol's name of the field.
  Status Renamed(const Status& status) const {
    const std::string& param = status.param() == "input"               ? request_.input_param
                               : status.param() == "max_output_tokens" ? request_.length_param
                                                                       : status.param();
    return {status.code(), status.message(), param, status.reason()};
  }

  /// The answer has ended, or its client has left.
  void Leave() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    CancelLater();
  }

  // Ends running turns and deletes the responses, which have no ids for clients; the text stays. Deferred, because the
  // caller may be a sink.
  void CancelLater() {
    service_.table.Post([&table = service_.table, caller = caller_, ids = ids_] {
      for (const std::string& id : ids) (void)table.Cancel(caller, id);
      table.DropConnection(caller.connection);
    });
  }

  const ChatService service_;
  const Caller caller_;
  StatelessRequest request_;  // const after construction
  const std::shared_ptr<const AnswerWriter> format_;

  std::mutex mutex_;
  std::vector<std::shared_ptr<Sink>> sinks_;
  std::vector<std::string> ids_;
  size_t next_ = 0, running_ = 0, ended_count_ = 0;
  std::vector<size_t> put_off_;
  size_t spoken_ = 0;  // prompts whose first choice has produced an event
  EndedChoices ended_;
  std::vector<size_t> offsets_ = std::vector<size_t>(ended_.size());      // sent characters by choice
  std::vector<size_t> told_tokens_ = std::vector<size_t>(ended_.size());  // sent tokens by choice
  std::vector<bool> begun_ = std::vector<bool>(ended_.size());            // by choice: Begin was sent
  bool closed_ = false;                                                   // nothing more is sent
  std::shared_ptr<LateAnswer> late_;
  std::shared_ptr<Outbox> outbox_;
  std::vector<std::function<void(Outbox&)>> early_;  // sent before the outbox existed
};

}  // namespace

HttpResponse AnswerStateless(const ChatService& service, const HttpRequest& asked, StatelessRequest request,
                             std::shared_ptr<const AnswerWriter> format) {
  return std::make_shared<Answers>(service, asked, std::move(request), std::move(format))->Begin();
}

}  // namespace ringside
