// A session's turn, from its request to its record in the journal.
#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "session/session.h"

namespace ringside {

Status OtherModel(const std::string& own) {
  return InvalidArgument("The conversation belongs to the model '" + own +
                             "', with which it began; another model answers in a conversation of its own.",
                         "model", "model_mismatch");
}

void Session::UseModel(std::shared_ptr<const SessionContext> context) {
  std::lock_guard lock(mutex_);
  if (&*context_ == context.get() || turns_.running() || changing_) return;
  const bool same = context_->codec_name == context->codec_name;
  context_.Bind(std::move(context));
  if (!same) conversation_.ForgetIds();
}

std::optional<JournalEntry> Session::TurnEntry(bool store, std::vector<JournalRecord> turn) const {
  const bool creates = !journal_.durable() && context_->journal != nullptr && store;
  if (!journal_.durable() && !creates) return std::nullopt;
  JournalEntry entry;
  entry.session = key_;
  entry.create = creates;
  if (creates) entry.records = CreationRecords();
  if (!creates && journal_.foreign())
    entry.records.push_back(EncodeName(RecordType::kRetokenised, context_->codec_name));
  if (!creates && journal_.model() != conversation_.model)
    entry.records.push_back(EncodeName(RecordType::kModel, conversation_.model));
  std::ranges::move(turn, std::back_inserter(entry.records));
  SetSummary(Summary(0), &entry);  // the summary does not reflect the end of the turn
  return entry;
}

Result<Session::Prepared> Session::Begin(const TurnSpec& spec, const Caller& caller, std::shared_ptr<Response> response,
                                         TurnId turn, const std::shared_ptr<EventSink>& sink, const std::string& head,
                                         std::shared_ptr<void>* permit) {
  std::unique_lock lock(mutex_);
  // A stateless request names no chain, so a chain resumed by another connection is no error: it is forked.
  const bool taken = spec.carries_history && turns_.listeners().Fenced(caller.connection);
  if (!head.empty() && (turns_.running() || changing_ || conversation_.head != head || taken))
    return Mismatch("The timeline has changed.");
  RETURN_IF_ERROR(CheckFree(caller.connection));
  if (!spec.model.empty() && spec.model != context_->options.model_name)
    return OtherModel(context_->options.model_name);
  RETURN_IF_ERROR(conversation_.CheckItems(spec.input.size() + 1, "input"));  // and the answer
  const Timeline base = conversation_.timeline;
  response->adapter = spec.adapter.value_or(conversation_.adapter);
  response->model_name = context_->options.model_name;
  response->tokenizer = &context_->codec.tokenizer;
  Result<RenderedTurn> begun = [&] {
    const BusyUnlocked busy(*this, lock);
    return renderer_.Render(spec, turn, std::move(response), base);
  }();
  if (!begun.ok()) return begun.status();
  RETURN_IF_ERROR(CheckFree(caller.connection));  // another connection may have resumed the session meanwhile

  Prepared prepared{std::move(begun->request), std::move(begun->images), {}};
  TurnRequest& request = prepared.request;
  if (engine_timeline_ == 0 || !(request.window == engine_window_)) {
    if (engine_timeline_ != 0) context_->shared->retired.Add({engine_timeline_, false});
    engine_timeline_ = NextEngineId();
    engine_window_ = request.window;
  }
  request.timeline = engine_timeline_;
  request.tenant = owner_;
  request.owner = CacheOwner(spec.store);
  found_by_history_ |= spec.carries_history;
  if (spec.carries_history && !spec.timeline_key.empty()) timeline_key_ = spec.timeline_key;
  embeds_ |= request.embedded;

  if (!spec.model.empty()) conversation_.model = spec.model;
  ActiveTurn& running = turns_.Begin(std::move(begun->turn));
  conversation_.updated_at = running.response->created_at;
  conversation_.used_s = running.response->begun_s = context_->uptime_s();
  running.response->tokens_evicted_before = conversation_.report.tokens_evicted;
  running.response->messages_evicted_before = conversation_.report.messages_evicted;
  running.recorder.SetEntry(TurnEntry(spec.store, std::move(begun->records)));
  running.permit = std::move(*permit);
  turns_.listeners().AddToTurn(sink);
  prepared.forgotten = conversation_.responses.Trim();
  return prepared;
}

Result<SharedList<TokenId>> Session::InputTokens(const TurnSpec& spec, const std::string& head) const {
  std::unique_lock lock(mutex_);
  if (!head.empty() && (turns_.running() || changing_ || conversation_.head != head))
    return Mismatch("The timeline has changed.");
  RETURN_IF_ERROR(conversation_.CheckItems(spec.input.size() + 1, "input"));
  const Timeline base = conversation_.timeline;
  lock.unlock();  // rendering takes time in proportion to the new text
  return renderer_.InputTokens(spec, base);
}

Status Session::Record(TurnId turn) {
  JournalEntry entry;
  {
    std::lock_guard lock(mutex_);
    if (!turns_.Runs(turn)) return Status::Ok();
    if (!turns_.running()->recorder.has_entry()) {
      turns_.Recorded(turn, Status::Ok());
      return Status::Ok();
    }
    entry = turns_.running()->recorder.TakeEntry();
    journal_.SetDurable(true);  // so that later records follow the same path
  }
  const bool creates = entry.create;
  Status status = context_->journal->Append(
      std::move(entry), [self = shared_from_this(), turn](const Status& told, const JournalPosition& last) {
        self->OnRecorded(turn, told, last);
      });
  if (!status.ok() && creates) {
    std::lock_guard lock(mutex_);
    journal_.SetDurable(false);
  }
  return status;
}

void Session::OnRecorded(TurnId turn, const Status& status, const JournalPosition& last) {
  std::lock_guard lock(mutex_);
  if (status.ok()) {
    journal_.SetRecorded(last);
    journal_.SetCodec(context_->codec_name);
    journal_.SetModel(conversation_.model);
  } else if (journal_.recorded().seq == 0) {
    journal_.SetDurable(false);  // this turn was to create it
  }
  turns_.Recorded(turn, status);
}

void Session::Abandon(TurnId turn) {
  std::lock_guard lock(mutex_);
  if (!turns_.Runs(turn)) return;
  const bool recorded =
      journal_.durable() && !turns_.running()->recorder.has_entry();  // the journal has the turn or will have it
  turns_.Drop();
  if (!recorded) return;
  Note({EncodeAbandoned()});
}

void Session::Note(std::vector<JournalRecord> records) {
  JournalEntry entry = journal_.Entry(std::move(records));
  entry.urgent = true;
  const Status status = context_->journal->Append(
      std::move(entry), [self = shared_from_this()](const Status& told, const JournalPosition& last) {
        if (!told.ok()) return;
        std::lock_guard lock(self->mutex_);
        self->journal_.SetRecorded(last);
        self->ChangedLocked();
      });
  if (!status.ok()) LogWarning("session {}: {}", key_, status.message());
}

}  // namespace ringside
