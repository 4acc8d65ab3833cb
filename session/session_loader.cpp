#include "session/session_loader.h"

#include <algorithm>

#include "session/chat/templates/reasoning_settings.h"
#include "session/session.h"

namespace ringside {

Status SessionLoader::Apply(const JournalRecord& record) {
  switch (static_cast<RecordType>(record.type)) {
    case RecordType::kCreated:
      return Corruption("session: created twice");
    case RecordType::kMetadata: {
      ASSIGN_OR_RETURN(conversation_.metadata, DecodeMetadata(record.payload));
      return Status::Ok();
    }
    case RecordType::kTimeline:
      return ApplyTimeline(record.payload);
    case RecordType::kTurn:
      return ApplyTurn(record.payload);
    case RecordType::kStarted: {
      ASSIGN_OR_RETURN(const CacheReport report, DecodeStarted(record.payload));
      if (!turns_.running()) return Corruption("session: a start without a turn");
      turns_.Start(report);
      return Status::Ok();
    }
    case RecordType::kTokens:
      return ApplyTokens(record.payload);
    case RecordType::kEnd:
      return ApplyEnd(record.payload);
    case RecordType::kAttached: {
      ASSIGN_OR_RETURN(const AttachedRecord attached, DecodeAttached(record.payload));
      conversation_.epoch = std::max(conversation_.epoch, attached.epoch);
      return Status::Ok();
    }
    case RecordType::kForgotten: {
      ASSIGN_OR_RETURN(const std::string response, DecodeName(record.payload));
      conversation_.responses.Remove(response);
      return Status::Ok();
    }
    case RecordType::kAbandoned:
      turns_.Drop();
      return Status::Ok();
    case RecordType::kInterrupted:
      return ApplyInterrupted(record.payload);
    case RecordType::kRetokenised:
      return ApplyRetokenised(record.payload);
    case RecordType::kModel: {
      ASSIGN_OR_RETURN(conversation_.model, DecodeName(record.payload));
      journal_.SetModel(conversation_.model);
      return Status::Ok();
    }
    case RecordType::kShared: {
      ASSIGN_OR_RETURN(conversation_.shares.emplace_back(), DecodeShared(record.payload));
      return Status::Ok();
    }
    case RecordType::kUnshared: {
      ASSIGN_OR_RETURN(const std::string share, DecodeName(record.payload));
      std::erase_if(conversation_.shares, [&](const Share& one) { return one.id == share; });
      return Status::Ok();
    }
    case RecordType::kImage:
      return images_.Add(record.payload);
  }
  return Mismatch("the record's kind is unknown to this version");
}

Status SessionLoader::ApplyInterrupted(std::string_view payload) {
  ASSIGN_OR_RETURN(InterruptedRecord record, DecodeInterrupted(payload));
  if (turns_.running()) turns_.Cut(std::move(record.cause));
  return Status::Ok();
}

Status SessionLoader::ApplyRetokenised(std::string_view payload) {
  ASSIGN_OR_RETURN(std::string codec, DecodeName(payload));
  journal_.SetCodec(std::move(codec));
  if (turns_.running()) turns_.Interrupt();
  conversation_.ForgetIds();
  return Status::Ok();
}

Status SessionLoader::ApplyTimeline(std::string_view payload) {
  ASSIGN_OR_RETURN(TimelineRecord record, DecodeTimeline(payload));
  RETURN_IF_ERROR(images_.Resolve(&record.patch));
  if (turns_.running()) turns_.Cut();
  const SharedList<Item> before = conversation_.timeline.items();
  RETURN_IF_ERROR(conversation_.timeline.Apply(std::move(record.patch), journal_.vocabulary()));
  conversation_.head.clear();
  record.truncates ? conversation_.responses.DropAfter(conversation_.timeline.items().size())
                   : conversation_.responses.Move(before, conversation_.timeline.items());
  return Status::Ok();
}

Status SessionLoader::ApplyTurn(std::string_view payload) {
  ASSIGN_OR_RETURN(TurnRecord record, DecodeTurn(payload));
  RETURN_IF_ERROR(images_.Resolve(&record.patch));
  if (!record.warm_up && record.patch.answer_begin < 0) return Corruption("session: a turn without an open answer");
  if (turns_.running()) turns_.Cut();  // the disk was full when it was cut
  ActiveTurn turn(NextEngineId(), conversation_.timeline);
  RETURN_IF_ERROR(turn.next.Apply(std::move(record.patch), journal_.vocabulary()));
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
  response->retokenised = conversation_.timeline.forgotten();
  response->clamped = record.clamped;
  response->calls = record.calls;
  response->syntax = record.syntax;
  response->form = std::move(record.form);
  response->adapter = std::move(record.adapter);
  response->model_name = conversation_.model.empty() ? context_->options.model_name : conversation_.model;
  response->tokenizer = &context_->codec.tokenizer;
  response->created_at = conversation_.updated_at = record.created_at;
  response->items_before = std::min(static_cast<size_t>(record.items_before), conversation_.timeline.items().size());
  response->input_items_end = turn.next.items().size();
  response->input_tokens = static_cast<int64_t>(turn.next.tokens().size());
  response->tokens_evicted_before = conversation_.report.tokens_evicted;
  response->messages_evicted_before = conversation_.report.messages_evicted;
  response->ignored_reasoning = std::move(record.ignored_reasoning);
  response->compaction = std::move(record.compaction);
  if (!response->warm_up) {
    ASSIGN_OR_RETURN(SettledReasoning usual, context_->codec.chat.Settle({}));
    if (journal_.foreign()) {
      turn.channels = std::move(usual.channels);  // ids cannot be decoded
    } else {
      renderer_.SetChannels(std::move(usual.channels), &turn);
    }
  }
  turn.response = response;
  turn.events = AnswerEvents(response, turn.next.head().tools);
  turn.replayed = true;
  turn.recomputed = record.recomputed;
  turn.renumbers = record.renumbers;
  (void)turn.recorder.Recorded(Status::Ok());
  turns_.Begin(std::move(turn));
  conversation_.responses.Trim();
  return Status::Ok();
}

Status SessionLoader::ApplyTokens(std::string_view payload) {
  ASSIGN_OR_RETURN(TokensRecord record, DecodeTokens(payload));
  if (!turns_.running()) return Corruption("session: tokens without a turn");
  for (const OutputToken& token : record.tokens) {
    RETURN_IF_ERROR(journal_.CheckRecorded(token.id));
    for (const TokenLogprob& other : token.top) RETURN_IF_ERROR(journal_.CheckRecorded(other.id));
  }
  if (record.reasoning_tokens < 0 || record.reasoning_tokens > std::ssize(record.tokens)) {
    return Corruption("session: more reasoning tokens than tokens");
  }
  turns_.running()->events.Tokens({.tokens = std::move(record.tokens),
                                   .text = std::move(record.text),
                                   .reasoning = std::move(record.reasoning),
                                   .reasoning_ended = record.reasoning_ended,
                                   .reasoning_tokens = record.reasoning_tokens});
  return Status::Ok();
}

Status SessionLoader::ApplyEnd(std::string_view payload) {
  ASSIGN_OR_RETURN(EndRecord record, DecodeEnd(payload));
  if (!turns_.running()) return Corruption("session: an end without a turn");
  for (const TokenId id : record.tail) RETURN_IF_ERROR(journal_.CheckRecorded(id));
  TurnEnd end;
  end.reason = record.reason;
  end.error = std::move(record.error);
  end.stop_string = std::move(record.stop_string);
  end.output = turns_.running()->events.output();
  end.output.insert(end.output.end(), record.tail.begin(), record.tail.end());
  end.report = record.report;
  end.drafts = record.drafts;
  end.times = record.times;
  if (record.reasoning_tokens < 0 || record.reasoning_tokens > std::ssize(end.output)) {
    return Corruption("session: more reasoning tokens than tokens");
  }
  end.reasoning_tokens = record.reasoning_tokens;
  end.cut_in_reasoning = record.cut_in_reasoning;
  turns_.running()->response->incomplete_reason = std::move(record.incomplete_reason);
  const TurnTimes& times = record.times;
  turns_.running()->response->ended_s = record.ended_s;
  turns_.running()->response->begun_s = record.ended_s - (times.queue_ms + times.prefill_ms + times.decode_ms) * 1e-3;
  turns_.Announce();
  turns_.Finish(end, record.completed_at);
  return Status::Ok();
}

}  // namespace ringside
