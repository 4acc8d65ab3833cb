// A session's turn from start to end.
#include <algorithm>

#include "base/limits.h"
#include "base/log.h"
#include "base/worker_pool.h"
#include "cache/store/tiered_store.h"
#include "engine/grammar/grammar.h"
#include "session/chat/reasoning_settings.h"
#include "session/ids.h"
#include "session/session.h"
#include "session/turn/turn_input.h"

namespace ringside {
namespace {

constexpr size_t kAnswerReserve = 1024;  // tokens

JournalRecord RecordOf(const TurnSpec& spec, const ActiveTurn& turn, const Timeline& base, const TurnRequest& request) {
  const Response& response = *turn.response;
  return Encode(TurnRecord{
      .response_id = response.id,
      .item_id = response.item_id,
      .previous_id = response.previous_id,
      .request_key = response.request_key,
      .echo = response.echo,
      .stored = spec.store,
      .warm_up = response.warm_up,
      .logprobs = response.logprobs,
      .recomputed = turn.recomputed,
      .renumbers = turn.renumbers,
      .created_at = response.created_at,
      .patch = turn.next.PatchFrom(base),
      .items_before = static_cast<int64_t>(response.items_before),
      .sampling = request.sampling,
      .max_tokens = request.max_tokens,
      .clamped = response.clamped,
      .calls = response.calls,
      .syntax = response.syntax,
      .form = response.form,
      .adapter = response.adapter,
      .ignored_reasoning = response.ignored_reasoning,
      .compaction = response.compaction,
  });
}

/// `reopened`: the existing part of an answer that is continued.
CallPlace PlaceOfCalls(const AnswerFormat& format, const std::optional<Item>& reopened) {
  if (format.calls == nullptr || !format.calls->may_call) return CallPlace::kNone;
  const bool text = format.kind == AnswerFormat::Kind::kText && !format.calls->must_call;
  const ToolSyntaxName syntax = format.calls->syntax;
  if (text && !SyntaxOf(syntax).alone) return CallPlace::kAny;
  const bool begun = reopened && FirstCall(reopened->text, reopened->calls_at, CallPlace::kStart, syntax) != 0;
  return begun ? CallPlace::kNone : CallPlace::kStart;
}

/// Checks that the answer can be continued as requested, and prepares its grammar.
Status PrepareContinuation(const Item& reopened, const TurnSpec& spec, CallPlace calls, TurnRequest* request) {
  if (reopened.calls_at >= 0 && calls == CallPlace::kNone) {
    return InvalidArgument(
        "The answer that is to go on was cut in a tool call: it goes on only as one, with its tools and a tool_choice "
        "that allows it.",
        "tool_choice", "invalid_value");
  }
  if (spec.grammar == nullptr) return Status::Ok();
  request->begun = reopened.text;
  const auto matcher = std::make_shared<GrammarMatcher>(spec.grammar);
  request->matcher = matcher;
  Status begins = Status::Ok();
  RETURN_IF_ERROR(RunLongWork([&] { begins = matcher->Append(reopened.text); }));
  if (begins.ok()) return Status::Ok();
  return InvalidArgument("The answer to be continued does not match the requested format.",
                         spec.format->param.empty() ? "tool_choice" : spec.format->param, "invalid_value");
}

/// The adapter is gone: a turn may name another, or the model itself, which recomputes the history.
Status NoAdapter(const std::string& name, const SessionTableOptions& options) {
  return NotFound("This server has no adapter '" + name + "', which the conversation has: its next turn may name " +
                      "another model, '" + options.model_name + "' for one.",
                  "model", "model_not_found");
}

/// Tokens of the longest answer to a request that gives no limit.
int64_t UsualAnswer(const SessionTableOptions& options, const TurnSpec& spec, const TurnInput& input,
                    const RingWindow& window) {
  int64_t most = options.max_output_tokens;
  if (most < 0) {
    most = RoomForAnswer(spec, input, window);
    if (options.max_output_tokens_limit > 0) most = std::min(most, options.max_output_tokens_limit);
  }
  return spec.sampling.beams.searches() ? std::min({most, limits::kMaxBeamTokens, window.memory_len}) : most;
}

const char* ReasonName(const Response& response) {
  if (!response.incomplete_reason.empty()) return response.incomplete_reason.c_str();
  switch (response.reason) {
    case FinishReason::kStop:
      return "completed";
    case FinishReason::kLength:
    case FinishReason::kSessionFull:
      return "max_output_tokens";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "failed";
    case FinishReason::kRepetition:
      return kRepetition;
  }
  return "";
}

/// One log line about a turn's cost, without any of its text.
void LogTurn(const Session& session, const Response& response) {
  const TurnTimes& times = response.times;
  const double tokens_per_s =
      times.decode_ms > 0 ? 1000.0 * static_cast<double>(response.output_tokens - 1) / times.decode_ms : 0;
  const LogTrace trace(response.trace);
  WriteLog(LogLevel::kInfo,
           fmt::format("turn: {} in session {}: {} tokens in, {} of them cached, {} out; first token {:.0f} ms, {:.1f} "
                       "tokens/s; source {}; {}",
                       response.id, session.key(), response.input_tokens, response.report.tokens_reused,
                       response.output_tokens, times.queue_ms + times.prefill_ms, std::max(tokens_per_s, 0.0),
                       CacheSourceName(response.report.source), ReasonName(response)),
           {{"event", "turn"},
            {"response_id", response.id},
            {"session_id", session.key()},
            {"owner", session.owner()},
            {"tokens_in", response.input_tokens},
            {"tokens_cached", response.report.tokens_reused},
            {"tokens_computed", response.report.tokens_computed},
            {"tokens_out", response.output_tokens},
            {"queue_ms", times.queue_ms},
            {"slot_ms", times.slot_ms},
            {"restore_ms", response.report.restore_ms},
            {"prefill_ms", times.prefill_ms},
            {"others_ms", times.others_ms},
            {"decode_ms", times.decode_ms},
            {"source", CacheSourceName(response.report.source)},
            {"end", ReasonName(response)}});
}

}  // namespace

Result<SamplingParams> Session::Sampling(const TurnSpec& spec) const {
  SamplingParams sampling = spec.sampling;
  for (const std::string& word : spec.bad_words) {
    // A word after a space is a different token.
    for (const std::string& text : {word, " " + word}) {
      const TextPiece piece{text, false};
      auto ids = context_->codec.tokenizer.Encode({&piece, 1}, limits::kMaxStopStringBytes);
      if (!ids) {
        return InvalidArgument("A bad word has at most " + std::to_string(limits::kMaxStopStringBytes) + " tokens.",
                               "bad_words");
      }
      if (!ids->empty()) sampling.bad_words.push_back(*std::move(ids));
    }
  }
  return sampling;
}

std::optional<JournalEntry> Session::TurnEntry(bool store, JournalRecord turn) const {
  const bool creates = !durable_ && context_->journal != nullptr && store;
  if (!durable_ && !creates) return std::nullopt;
  JournalEntry entry;
  entry.session = key_;
  entry.create = creates;
  if (creates) entry.records = CreationRecords();
  if (!creates && Foreign()) entry.records.push_back(EncodeRetokenised(context_->codec_name));
  entry.records.push_back(std::move(turn));
  entry.summary = Encode(Summary(0));  // the summary does not reflect the end of the turn
  return entry;
}

// Takes time in proportion to the new text, without a lock, so that other callers do not wait.
Result<Session::Begun> Session::Render(const TurnSpec& spec, TurnId turn, std::shared_ptr<Response> response,
                                       const Timeline& base) const {
  const SessionTableOptions& options = context_->options;
  response->retokenised = base.forgotten();
  response->items_before = base.items().size();
  std::vector<Item> items;
  for (const NewItem& item : spec.input) items.push_back(MakeItem(item));
  ASSIGN_OR_RETURN(SettledReasoning reasoning, SettleReasoning(spec));
  ASSIGN_OR_RETURN(TurnInput input, RenderInput(spec, std::move(items), base, CodecFor(reasoning),
                                                {SessionLen(), options.max_input_tokens, reasoning.head}));
  if (input.next.reopened()) response->item_id = input.next.reopened()->id;
  const RingWindow window = Window(input.next.pinned());
  RETURN_IF_ERROR(CheckShown(spec, input, window));
  ASSIGN_OR_RETURN(SamplingParams sampling, Sampling(spec));

  const std::optional<int> adapter = options.NumberOfAdapter(response->adapter);
  if (!adapter) return NoAdapter(response->adapter, options);

  TurnRequest request;
  request.turn = turn;
  request.adapter = *adapter;
  // The engine appends sampled tokens: the reserve avoids another copy of the history.
  request.tokens = input.next.tokens().From(0, kAnswerReserve);
  request.message_starts = input.next.message_starts().From(0);
  request.window = window;
  request.session_len = SessionLen();
  request.sampling = std::move(sampling);
  request.stop_strings = spec.stop_strings;
  // A format determines where the answer ends; the client's stop strings still apply.
  if (!spec.raw && spec.format->kind == AnswerFormat::Kind::kText) {
    const std::vector<std::string>& own_stops = context_->codec.chat.stop_strings();
    request.stop_strings.insert(request.stop_strings.end(), own_stops.begin(), own_stops.end());
  }
  request.grammar = spec.grammar;
  request.recipients = spec.recipients;
  request.must_call = spec.format && spec.format->calls != nullptr && spec.format->calls->must_call;
  response->calls = PlaceOfCalls(*spec.format, input.next.reopened());
  if (const std::optional<Item>& reopened = input.next.reopened()) {
    RETURN_IF_ERROR(PrepareContinuation(*reopened, spec, response->calls, &request));
  }
  request.stop_ids = spec.stop_ids;
  if (!spec.ignore_end_of_turn) {
    request.stop_ids.insert(request.stop_ids.end(), options.end_of_turn.begin(), options.end_of_turn.end());
  }
  request.continues = !base.tokens().empty() || base.forgotten();
  request.continues_answer = input.next.reopened().has_value() || (spec.raw && !context_->codec.encoder);
  request.may_branch = spec.may_branch;
  request.scored = spec.raw && spec.raw->scored;
  request.embedded = spec.raw && spec.raw->embedded;
  request.max_tokens = spec.warm_up ? 0 : spec.max_output_tokens.value_or(UsualAnswer(options, spec, input, window));
  request.ends_repetition = options.ends_repetition && !spec.max_output_tokens;

  response->clamped = Clamped(input.next.pinned());
  response->syntax = context_->codec.chat.tool_syntax();
  response->form = Encode(AnswerForm{*spec.format, *spec.tool_choice});
  response->created_at = context_->clock.WallSeconds();
  response->input_tokens = static_cast<int64_t>(request.tokens.size());
  if (response->token_ids) response->prompt_ids = input.next.tokens();
  response->input_items_end = input.next.items().size();
  ActiveTurn running(turn, std::move(input.next));
  running.background = spec.background;
  running.recomputed = input.recomputed;
  running.renumbers = options.durability == Durability::kTurn;
  running.response = std::move(response);
  running.events = AnswerEvents(running.response, running.next.head().tools);
  SetReasoning(std::move(reasoning), &running, &request);
  JournalRecord record = RecordOf(spec, running, base, request);
  return Begun{std::move(running), std::move(request), std::move(record)};
}

Result<Session::Prepared> Session::Begin(const TurnSpec& spec, const Caller& caller, std::shared_ptr<Response> response,
                                         TurnId turn, const std::shared_ptr<EventSink>& sink, const std::string& head,
                                         std::shared_ptr<void>* permit) {
  std::unique_lock lock(mutex_);
  // A stateless request names no chain, so a chain resumed by another connection is no error: it is forked.
  const bool taken = spec.carries_history && listeners_.Fenced(caller.connection);
  if (!head.empty() && (running_ || changing_ || head_ != head || taken)) return Mismatch("The timeline has changed.");
  RETURN_IF_ERROR(CheckFree(caller.connection));
  RETURN_IF_ERROR(CheckItems(spec.input.size() + 1, "input"));  // and the answer
  const Timeline base = timeline_;
  response->adapter = spec.adapter.value_or(adapter_);
  Result<Begun> begun = [&] {
    const BusyUnlocked busy(*this, lock);
    return Render(spec, turn, std::move(response), base);
  }();
  if (!begun.ok()) return begun.status();
  RETURN_IF_ERROR(CheckFree(caller.connection));  // another connection may have resumed the session meanwhile

  Prepared prepared{std::move(begun->request), {}};
  TurnRequest& request = prepared.request;
  if (engine_timeline_ == 0 || !(request.window == engine_window_)) {
    if (engine_timeline_ != 0) context_->retired->Add({engine_timeline_, false});
    engine_timeline_ = NextEngineId();
    engine_window_ = request.window;
  }
  request.timeline = engine_timeline_;
  request.tenant = owner_;
  request.owner = CacheOwner(spec.store);
  found_by_history_ |= spec.carries_history;
  if (spec.carries_history && !spec.timeline_key.empty()) timeline_key_ = spec.timeline_key;
  embeds_ |= request.embedded;

  ActiveTurn& running = running_.emplace(std::move(begun->turn));
  updated_at_ = running.response->created_at;
  used_s_ = running.response->begun_s = context_->uptime_s();
  running.response->tokens_evicted_before = last_report_.tokens_evicted;
  running.response->messages_evicted_before = last_report_.messages_evicted;
  running.recorder.SetEntry(TurnEntry(spec.store, std::move(begun->record)));
  running.events.SendTo(&listeners_);
  running.permit = std::move(*permit);
  listeners_.AddToTurn(sink);
  prepared.forgotten = responses_.Trim();
  return prepared;
}

Result<SharedList<TokenId>> Session::InputTokens(const TurnSpec& spec, const std::string& head) const {
  std::unique_lock lock(mutex_);
  if (!head.empty() && (running_ || changing_ || head_ != head)) return Mismatch("The timeline has changed.");
  RETURN_IF_ERROR(CheckItems(spec.input.size() + 1, "input"));
  const Timeline base = timeline_;
  lock.unlock();  // rendering takes time in proportion to the new text
  std::vector<Item> items;
  for (const NewItem& item : spec.input) items.push_back(MakeItem(item));
  ASSIGN_OR_RETURN(const SettledReasoning reasoning, SettleReasoning(spec));
  ASSIGN_OR_RETURN(const TurnInput input,
                   RenderInput(spec, std::move(items), base, CodecFor(reasoning),
                               {SessionLen(), context_->options.max_input_tokens, reasoning.head}));
  return input.next.tokens();
}

Status Session::Record(TurnId turn) {
  JournalEntry entry;
  {
    std::lock_guard lock(mutex_);
    if (!Runs(turn)) return Status::Ok();
    if (!running_->recorder.has_entry()) {
      Advance(running_->recorder.Recorded(Status::Ok()));
      return Status::Ok();
    }
    entry = running_->recorder.TakeEntry();
    durable_ = true;  // so that later records follow the same path
  }
  const bool creates = entry.create;
  Status status = context_->journal->Append(
      std::move(entry), [self = shared_from_this(), turn](const Status& told, const JournalPosition& last) {
        self->OnRecorded(turn, told, last);
      });
  if (!status.ok() && creates) {
    std::lock_guard lock(mutex_);
    durable_ = false;
  }
  return status;
}

void Session::OnRecorded(TurnId turn, const Status& status, const JournalPosition& last) {
  std::lock_guard lock(mutex_);
  if (status.ok()) {
    SetRecorded(last);
    recorded_codec_ = context_->codec_name;
  } else if (recorded_.seq == 0) {
    durable_ = false;  // this turn was to create it
  }
  if (Runs(turn)) Advance(running_->recorder.Recorded(status));
}

void Session::Advance(TurnRecorder::Next next) {
  if (next == TurnRecorder::Next::kAnnounce) AnnounceLocked();
  if (next != TurnRecorder::Next::kFail) return;
  context_->engine.Cancel(running_->id);
  FailTurn(running_->recorder.refused());
}

void Session::FailTurn(const Status& status) {
  AnnounceLocked();
  TurnEnd end;
  end.reason = FinishReason::kError;
  end.error = status;
  Finish(end, context_->clock.WallSeconds());
}

void Session::Announce(TurnId turn) {
  std::lock_guard lock(mutex_);
  if (Runs(turn)) Advance(running_->recorder.Submitted());
}

void Session::Abandon(TurnId turn) {
  std::lock_guard lock(mutex_);
  if (!Runs(turn)) return;
  const bool recorded = durable_ && !running_->recorder.has_entry();  // the journal has the turn or will have it
  DropTurn();
  if (!recorded) return;
  Note({EncodeAbandoned()});
}

void Session::Note(std::vector<JournalRecord> records) {
  JournalEntry entry;
  entry.session = key_;
  entry.records = std::move(records);
  entry.urgent = true;
  const Status status = context_->journal->Append(
      std::move(entry), [self = shared_from_this()](const Status& told, const JournalPosition& last) {
        if (!told.ok()) return;
        std::lock_guard lock(self->mutex_);
        self->SetRecorded(last);
        self->ChangedLocked();
      });
  if (!status.ok()) LogWarning("session {}: {}", key_, status.message());
}

TurnId Session::Running(const std::string& response) const {
  std::lock_guard lock(mutex_);
  return running_ && (response.empty() || running_->response->id == response) ? running_->id : 0;
}

void Session::EndTurn(TurnId turn, const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (!Runs(turn) || !running_->response->incomplete_reason.empty()) return;
  running_->response->incomplete_reason = reason;
  context_->engine.Cancel(turn);
}

void Session::OnEnd(TurnId turn, const TurnEnd& end, double completed_at, const JournalPosition& recorded) {
  std::lock_guard lock(mutex_);
  if (!Runs(turn)) return;
  if (recorded.seq != 0) SetRecorded(running_->response->recorded = recorded);
  AnnounceLocked();
  // it ended before it was cut
  if (end.reason != FinishReason::kCancelled) running_->response->incomplete_reason.clear();
  Finish(end, completed_at);
  ChangedLocked();
}

void Session::OnInterrupted(TurnId turn, const Status& cause, const JournalPosition& recorded) {
  std::lock_guard lock(mutex_);
  if (!Runs(turn)) return;
  LogCut(cause);
  // Only its client's own history leads to this session, and the client sends that again.
  if (key_.starts_with(TieredStore::kMemoryOnly)) return FailTurn(cause);
  if (recorded.seq != 0) SetRecorded(running_->response->recorded = recorded);
  ++*context_->interrupted;
  CutTurn(cause);
  ChangedLocked();
}

void Session::OnLost(TurnId turn, const Status& status) {
  std::lock_guard lock(mutex_);
  if (!Runs(turn)) return;
  LogCut(status);
  context_->engine.Cancel(turn);
  // A turn that was never recorded was never acknowledged; its end must not acknowledge it.
  running_->recorder.recorded() ? CutTurn() : FailTurn(status);
}

void Session::LogCut(const Status& cause) const {
  const TraceContext trace = running_->response->trace;
  const LogTrace named(trace);
  LogWarning("session {}: the turn ended early: {}", key_, cause.message());
}

// A pure function of the turn's records, so that a restart after a crash and a server with a full disk get the same
// result.
void Session::CutTurn(Status cause) {
  AnnounceLocked();
  ActiveTurn& turn = *running_;
  if (turn.response->started && !Foreign()) {
    turn.cut_in_reasoning =
        turn.events.EmitHeldBack(context_->codec.tokenizer, turn.next.reopened(), turn.channels, turn.begun_ids);
  }
  Interrupt(std::move(cause));
}

void Session::Interrupt(Status cause) {
  AnnounceLocked();
  ActiveTurn& turn = *running_;
  Response& response = *turn.response;
  response.incomplete_reason = kInterrupted;
  if (turn.renumbers) first_epoch_ = ++epoch_;
  TurnEnd end;
  end.reason = FinishReason::kCancelled;
  end.error = std::move(cause);
  end.output = turn.events.output();
  end.reasoning_tokens = response.reasoning_tokens;
  end.cut_in_reasoning = turn.cut_in_reasoning;
  end.report = response.report;
  end.report.position = static_cast<int64_t>(turn.next.tokens().size() + turn.events.output().size());
  Finish(end, response.created_at);
}

void Session::Finish(const TurnEnd& end, double completed_at) {
  Response& response = *running_->response;
  response.reason = end.reason;
  response.stop_string = end.stop_string;
  response.error = end.error;
  response.output_tokens = static_cast<int64_t>(end.output.size());
  response.report = end.report;
  response.times = end.times;
  response.reasoning_tokens = end.reasoning_tokens;
  response.cut_in_reasoning = end.cut_in_reasoning && response.text.empty();
  response.reasoning_ms = end.times.reasoning_ms;
  if (running_->recomputed) response.report.source = CacheSource::kRecomputed;
  response.completed_at = completed_at;
  if (response.ended_s == 0) response.ended_s = running_->replayed ? used_s_ : context_->uptime_s();
  if (end.stop_token && response.keeps_tokens()) running_->events.Hold(*end.stop_token);
  if (end.reason != FinishReason::kError) running_->events.EndText();
  if (response.token_ids) response.output_ids = end.output;
  if (end.reason == FinishReason::kError) {
    // As if the turn had never existed: it can be requested again.
    response.status = ResponseStatus::kFailed;
    response.items_end = response.input_items_end = response.items_before;
  } else {
    Timeline& next = running_->next;
    const bool cut = end.reason != FinishReason::kStop;
    if (response.warm_up) {
      response.status =
          end.reason == FinishReason::kCancelled ? ResponseStatus::kCancelled : ResponseStatus::kCompleted;
    } else {
      response.status = !cut ? ResponseStatus::kCompleted
                        : end.reason == FinishReason::kCancelled && response.incomplete_reason.empty()
                            ? ResponseStatus::kCancelled
                            : ResponseStatus::kIncomplete;
      Item answer;
      answer.id = response.item_id;
      answer.reasoning = response.reasoning;
      answer.calls_at = running_->events.CallsAt(next.reopened());
      answer.text = running_->events.StoredText(cut, end.output.empty(), &next);
      answer.complete = !cut;
      if (cut) answer.form = response.form;
      next.CloseAnswer(std::move(answer), end.output, context_->codec);
    }
    timeline_ = std::move(next);
    adapter_ = response.adapter;
    if (context_->codec.encoder) response.report.messages_evicted += timeline_.left_out();
    response.items_end = timeline_.items().size();
    head_ = response.id;
    last_report_ = response.report;
  }
  // Before the end is reported, so that a client that knows of it finds the line and may start the next turn.
  if (!running_->replayed) LogTurn(*this, response);
  running_->permit.reset();
  running_->events.End();
  responses_.DropTokensExceptOf(response);
  DropTurn();
  CountBytes();
  if (found_by_history_) context_->histories->Add(weak_from_this());
}

void Session::DropTurn() {
  running_.reset();
  listeners_.EndTurn();
}

}  // namespace ringside
