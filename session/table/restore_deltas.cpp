#include "session/table/restore_deltas.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "session/journal/delta_log.h"
#include "session/journal/shared_log.h"
#include "session/records.h"

namespace ringside {
namespace {

/// Whether a record changes neither turns nor the timeline: it may follow the start of a running turn.
bool IsBesideTurns(uint8_t type) {
  constexpr std::array kTypes = {RecordType::kMetadata, RecordType::kAttached, RecordType::kForgotten,
                                 RecordType::kShared, RecordType::kUnshared};
  return std::ranges::find(kTypes, static_cast<RecordType>(type)) != kTypes.end();
}

/// Whether the turn was still running when its session was written last.
bool Continues(const JournalTranscript& transcript, const JournalPosition& after) {
  if (after.seq == 0 || after.seq > transcript.records.size()) return false;
  if (transcript.chains[after.seq - 1] != after.chain) return false;
  return std::all_of(transcript.records.begin() + static_cast<ptrdiff_t>(after.seq), transcript.records.end(),
                     [](const JournalRecord& record) { return IsBesideTurns(record.type); });
}

void Report(const std::string& session, const Status& status) {
  if (!status.ok()) LogWarning("session {}: the text of its interrupted answer is lost: {}", session, status.message());
}

/// REQUIRES: the session is claimed.
void Restore(Journal& journal, const DeltaLog::Unfinished& unfinished) {
  const Result<JournalTranscript> transcript = journal.Read(unfinished.session);
  if (!transcript.ok()) return Report(unfinished.session, transcript.status());
  if (!Continues(*transcript, unfinished.after)) return;  // another process has closed the answer
  const auto done = [session = unfinished.session](const Status& status, const JournalPosition&) {
    Report(session, status);
  };
  std::vector<JournalRecord> records = unfinished.records;
  records.push_back(Encode(InterruptedRecord{}));  // in one entry: no reader sees the turn running here
  const Status accepted =
      journal.Append({.session = unfinished.session, .records = std::move(records), .urgent = true}, done);
  if (!accepted.ok()) Report(unfinished.session, accepted);
}

}  // namespace

Status RestoreDeltas(Journal& journal) {
  DeltaLog* const deltas = journal.deltas();
  if (deltas == nullptr) return Status::Ok();
  ASSIGN_OR_RETURN(const std::vector<DeltaLog::Unfinished> unfinished, deltas->ReadUnfinished());
  for (const DeltaLog::Unfinished& one : unfinished) {
    const Status claimed = journal.Claim(one.session);
    if (claimed.code() == StatusCode::kNotFound || claimed.code() == StatusCode::kBusy) continue;
    RETURN_IF_ERROR(claimed);
    Restore(journal, one);
    RETURN_IF_ERROR(journal.Release(one.session, [](const Status&, const JournalPosition&) {}));
  }
  journal.Flush();
  if (!journal.healthy()) return journal.Check();
  return deltas->Begin(journal.shared()->incarnation());
}

}  // namespace ringside
