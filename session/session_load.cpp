// Restores a session from its journal by applying its changes again, without listeners.
#include "base/log.h"
#include "session/chat/reasoning_settings.h"
#include "session/session.h"

namespace ringside {

Result<std::shared_ptr<Session>> Session::Load(std::shared_ptr<const SessionContext> context, const std::string& key,
                                               const JournalTranscript& transcript) {
  std::vector<JournalRecord> news;
  ASSIGN_OR_RETURN(const auto session, FromRecords(std::move(context), key, transcript, &news));
  for (const JournalRecord& record : news) {
    if (record.type == static_cast<uint8_t>(RecordType::kInterrupted)) ++*session->context_->interrupted;
  }
  if (session->Foreign()) {
    LogWarning("session {}: its token ids are of another tokenizer or template; its text is tokenized again", key);
  }
  if (!news.empty()) session->Note(std::move(news));
  return session;
}

Status Session::CheckLoads(std::shared_ptr<const SessionContext> context, const std::string& key,
                           const JournalTranscript& transcript) {
  std::vector<JournalRecord> news;
  return FromRecords(std::move(context), key, transcript, &news).status();
}

Result<std::shared_ptr<Session>> Session::FromRecords(std::shared_ptr<const SessionContext> context,
                                                      const std::string& key, const JournalTranscript& transcript,
                                                      std::vector<JournalRecord>* news) {
  const auto damaged = [](size_t record) {
    return Corruption("record " + std::to_string(record + 1) + " makes no sense");
  };
  if (transcript.records.empty() || transcript.records[0].type != static_cast<uint8_t>(RecordType::kCreated)) {
    return damaged(0);
  }
  Result<CreatedRecord> created = DecodeCreated(transcript.records[0].payload);
  if (!created.ok()) return damaged(0);
  const auto session = std::make_shared<Session>(std::move(context), key, std::move(created->owner),
                                                 std::move(created->metadata), created->window);
  std::lock_guard lock(session->mutex_);
  session->durable_ = true;
  session->created_at_ = session->updated_at_ = created->created_at;
  // Without a summary of its last record, the session counts as used now.
  const Result<SessionSummary> summary = DecodeSummary(transcript.summary);
  if (summary.ok() && summary->seq == transcript.last.seq) session->used_s_ = summary->used_s;
  session->epoch_ = session->first_epoch_ = created->epoch;
  session->recorded_ = transcript.last;
  session->recorded_codec_ = std::move(created->codec);
  for (size_t i = 1; i < transcript.records.size(); ++i) {
    const JournalRecord& record = transcript.records[i];
    // Kept to its end, even if it was deleted while running.
    const std::shared_ptr<Response> answer = session->running_ ? session->running_->response : nullptr;
    if (const Status status = session->ApplyRecord(record); !status.ok()) {
      return status.code() == StatusCode::kMismatch ? status : damaged(i);
    }
    const auto type = static_cast<RecordType>(record.type);
    if (answer != nullptr && (type == RecordType::kEnd || type == RecordType::kInterrupted)) {
      answer->recorded = {i + 1, transcript.chains[i]};
    }
  }
  if (session->running_) {
    session->CutTurn();
    // Records whether the cut turn's ids could be read, so that a later start derives the same text.
    if (session->Foreign()) news->push_back(EncodeRetokenised(session->context_->codec_name));
    news->push_back(Encode(InterruptedRecord{}));
  }
  // Recorded with the next change: until then a server with the previous model still finds its ids.
  if (session->Foreign()) session->ForgetIds();
  session->CountBytes();
  return session;
}

void Session::ForgetIds() {
  timeline_.ForgetTokens();
  last_report_ = {};
  responses_.DropTokens();
}

Status Session::ApplyRecord(const JournalRecord& record) {
  switch (static_cast<RecordType>(record.type)) {
    case RecordType::kCreated:
      return Corruption("session: created twice");
    case RecordType::kMetadata: {
      ASSIGN_OR_RETURN(metadata_, DecodeMetadata(record.payload));
      return Status::Ok();
    }
    case RecordType::kTimeline:
      return ApplyTimeline(record.payload);
    case RecordType::kTurn:
      return ApplyTurn(record.payload);
    case RecordType::kStarted: {
      ASSIGN_OR_RETURN(const CacheReport report, DecodeStarted(record.payload));
      if (!running_) return Corruption("session: a start without a turn");
      StartLocked(report);
      return Status::Ok();
    }
    case RecordType::kTokens:
      return ApplyTokens(record.payload);
    case RecordType::kEnd:
      return ApplyEnd(record.payload);
    case RecordType::kAttached: {
      ASSIGN_OR_RETURN(const AttachedRecord attached, DecodeAttached(record.payload));
      epoch_ = std::max(epoch_, attached.epoch);
      return Status::Ok();
    }
    case RecordType::kForgotten: {
      ASSIGN_OR_RETURN(const std::string response, DecodeName(record.payload));
      responses_.Remove(response);
      return Status::Ok();
    }
    case RecordType::kAbandoned:
      DropTurn();
      return Status::Ok();
    case RecordType::kInterrupted:
      return ApplyInterrupted(record.payload);
    case RecordType::kRetokenised:
      return ApplyRetokenised(record.payload);
  }
  return Mismatch("the record's kind is unknown to this version");
}

Status Session::ApplyInterrupted(std::string_view payload) {
  ASSIGN_OR_RETURN(InterruptedRecord record, DecodeInterrupted(payload));
  if (running_) CutTurn(std::move(record.cause));
  return Status::Ok();
}

Status Session::ApplyRetokenised(std::string_view payload) {
  ASSIGN_OR_RETURN(recorded_codec_, DecodeName(payload));
  if (running_) Interrupt();
  ForgetIds();
  return Status::Ok();
}

Status Session::ApplyTimeline(std::string_view payload) {
  ASSIGN_OR_RETURN(TimelineRecord record, DecodeTimeline(payload));
  if (running_) CutTurn();
  const SharedList<Item> before = timeline_.items();
  RETURN_IF_ERROR(timeline_.Apply(std::move(record.patch), RecordedVocabulary()));
  head_.clear();
  record.truncates ? responses_.DropAfter(timeline_.items().size()) : responses_.Move(before, timeline_.items());
  return Status::Ok();
}

Status Session::ApplyTurn(std::string_view payload) {
  ASSIGN_OR_RETURN(TurnRecord record, DecodeTurn(payload));
  if (!record.warm_up && record.patch.answer_begin < 0) return Corruption("session: a turn without an open answer");
  if (running_) CutTurn();  // the disk was full when it was cut
  ActiveTurn turn(NextEngineId(), timeline_);
  RETURN_IF_ERROR(turn.next.Apply(std::move(record.patch), RecordedVocabulary()));
  const auto response = std::make_shared<Response>();
  response->id = std::move(record.response_id);
  response->item_id = std::move(record.item_id);
  response->previous_id = std::move(record.previous_id);
  response->request_key = std::move(record.request_key);
  response->echo = std::move(record.echo);
  response->conversation_id = id_;
  response->stored = record.stored;
  response->warm_up = record.warm_up;
  response->logprobs = record.logprobs;
  response->retokenised = timeline_.forgotten();
  response->clamped = record.clamped;
  response->calls = record.calls;
  response->syntax = record.syntax;
  response->form = std::move(record.form);
  response->adapter = std::move(record.adapter);
  response->created_at = updated_at_ = record.created_at;
  response->items_before = std::min(static_cast<size_t>(record.items_before), timeline_.items().size());
  response->input_items_end = turn.next.items().size();
  response->input_tokens = static_cast<int64_t>(turn.next.tokens().size());
  response->tokens_evicted_before = last_report_.tokens_evicted;
  response->messages_evicted_before = last_report_.messages_evicted;
  response->ignored_reasoning = std::move(record.ignored_reasoning);
  response->compaction = std::move(record.compaction);
  if (!response->warm_up) {
    ASSIGN_OR_RETURN(SettledReasoning usual, context_->codec.chat.Settle({}));
    if (Foreign()) {
      turn.channels = std::move(usual.channels);  // ids cannot be decoded
    } else {
      SetChannels(std::move(usual.channels), &turn);
    }
  }
  turn.response = response;
  turn.events = AnswerEvents(response, turn.next.head().tools);
  turn.events.SendTo(&listeners_);
  turn.replayed = true;
  turn.recomputed = record.recomputed;
  turn.renumbers = record.renumbers;
  (void)turn.recorder.Recorded(Status::Ok());
  running_ = std::move(turn);
  responses_.Trim();
  return Status::Ok();
}

Status Session::ApplyTokens(std::string_view payload) {
  ASSIGN_OR_RETURN(TokensRecord record, DecodeTokens(payload));
  if (!running_) return Corruption("session: tokens without a turn");
  for (const OutputToken& token : record.tokens) {
    RETURN_IF_ERROR(CheckRecorded(token.id));
    for (const TokenLogprob& other : token.top) RETURN_IF_ERROR(CheckRecorded(other.id));
  }
  if (record.reasoning_tokens < 0 || record.reasoning_tokens > std::ssize(record.tokens)) {
    return Corruption("session: more reasoning tokens than tokens");
  }
  running_->events.Tokens({.tokens = std::move(record.tokens),
                           .text = std::move(record.text),
                           .reasoning = std::move(record.reasoning),
                           .reasoning_ended = record.reasoning_ended,
                           .reasoning_tokens = record.reasoning_tokens});
  return Status::Ok();
}

Status Session::CheckRecorded(TokenId id) const {
  return id >= 0 && id < RecordedVocabulary() ? Status::Ok() : Corruption("session: a token outside the vocabulary");
}

Status Session::ApplyEnd(std::string_view payload) {
  ASSIGN_OR_RETURN(EndRecord record, DecodeEnd(payload));
  if (!running_) return Corruption("session: an end without a turn");
  for (const TokenId id : record.tail) RETURN_IF_ERROR(CheckRecorded(id));
  TurnEnd end;
  end.reason = record.reason;
  end.error = std::move(record.error);
  end.stop_string = std::move(record.stop_string);
  end.output = running_->events.output();
  end.output.insert(end.output.end(), record.tail.begin(), record.tail.end());
  end.report = record.report;
  end.times = record.times;
  if (record.reasoning_tokens < 0 || record.reasoning_tokens > std::ssize(end.output)) {
    return Corruption("session: more reasoning tokens than tokens");
  }
  end.reasoning_tokens = record.reasoning_tokens;
  end.cut_in_reasoning = record.cut_in_reasoning;
  running_->response->incomplete_reason = std::move(record.incomplete_reason);
  const TurnTimes& times = record.times;
  running_->response->ended_s = record.ended_s;
  running_->response->begun_s = record.ended_s - (times.queue_ms + times.prefill_ms + times.decode_ms) * 1e-3;
  AnnounceLocked();
  Finish(end, record.completed_at);
  return Status::Ok();
}

}  // namespace ringside
