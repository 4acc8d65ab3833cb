// Restores a session from its journal by applying its changes again, without listeners.
#include "base/log.h"
#include "session/session.h"
#include "session/session_loader.h"

namespace ringside {

Result<std::shared_ptr<Session>> Session::Load(std::shared_ptr<const SessionContext> context, const std::string& key,
                                               const JournalTranscript& transcript, Purpose purpose) {
  std::vector<JournalRecord> news;
  ASSIGN_OR_RETURN(const auto session, FromRecords(std::move(context), key, transcript, purpose, &news));
  if (purpose != Purpose::kServe) return session;
  for (const JournalRecord& record : news) {
    if (record.type == static_cast<uint8_t>(RecordType::kInterrupted)) ++session->context_->shared->interrupted;
  }
  if (session->journal_.foreign()) {
    LogWarning("session {}: its token ids are of another tokenizer or template; its text is tokenized again", key);
  }
  if (!news.empty()) session->Note(std::move(news));
  return session;
}

std::string ModelOf(const JournalTranscript& transcript) {
  std::string model;
  for (const JournalRecord& record : transcript.records) {
    if (record.type == static_cast<uint8_t>(RecordType::kCreated)) {
      if (Result<CreatedRecord> created = DecodeCreated(record.payload); created.ok()) model = created->window.model;
    } else if (record.type == static_cast<uint8_t>(RecordType::kModel)) {
      if (Result<std::string> name = DecodeName(record.payload); name.ok()) model = *std::move(name);
    }
  }
  return model;
}

Result<std::shared_ptr<Session>> Session::FromRecords(std::shared_ptr<const SessionContext> context,
                                                      const std::string& key, const JournalTranscript& transcript,
                                                      Purpose purpose, std::vector<JournalRecord>* news) {
  const auto damaged = [](size_t record) {
    return Corruption("record " + std::to_string(record + 1) + " is inconsistent");
  };
  if (transcript.records.empty() || transcript.records[0].type != static_cast<uint8_t>(RecordType::kCreated)) {
    return damaged(0);
  }
  Result<CreatedRecord> created = DecodeCreated(transcript.records[0].payload);
  if (!created.ok()) return damaged(0);
  const auto session = std::make_shared<Session>(std::move(context), key, std::move(created->owner),
                                                 std::move(created->metadata), created->window);
  std::lock_guard lock(session->mutex_);
  session->journal_.SetDurable(true);
  session->conversation_.created_at = session->conversation_.updated_at = created->created_at;
  // Without a summary of its last record, the session counts as used now.
  const Result<SessionSummary> summary = DecodeSummary(transcript.summary);
  if (summary.ok() && summary->seq == transcript.last.seq) session->conversation_.used_s = summary->used_s;
  session->conversation_.epoch = session->conversation_.first_epoch = created->epoch;
  session->journal_.Load(transcript.last, std::move(created->codec));
  session->journal_.SetModel(created->window.model);
  SessionLoader loader(*session->context_, session->id_, session->renderer_, &session->conversation_,
                       &session->journal_, &session->turns_);
  for (size_t i = 1; i < transcript.records.size(); ++i) {
    const JournalRecord& record = transcript.records[i];
    // Kept to its end, even if it was deleted while running.
    const std::shared_ptr<Response> answer = session->turns_.running() ? session->turns_.running()->response : nullptr;
    if (const Status status = loader.Apply(record); !status.ok()) {
      return status.code() == StatusCode::kMismatch ? status : damaged(i);
    }
    const auto type = static_cast<RecordType>(record.type);
    if (answer != nullptr && (type == RecordType::kEnd || type == RecordType::kInterrupted)) {
      answer->recorded = {i + 1, transcript.chains[i]};
    }
  }
  if (session->turns_.running() && purpose == Purpose::kView) {
    session->turns_.Announce();
  } else if (session->turns_.running()) {
    session->turns_.Cut();
    // Records whether the cut turn's ids could be read, so that a later start derives the same text.
    if (session->journal_.foreign())
      news->push_back(EncodeName(RecordType::kRetokenised, session->context_->codec_name));
    news->push_back(Encode(InterruptedRecord{}));
  }
  // Recorded with the next change: until then a server with the previous model still finds its ids.
  if (session->journal_.foreign()) session->conversation_.ForgetIds();
  session->CountBytes();
  return session;
}

}  // namespace ringside
