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

/// Whether a record says nothing of turns or the timeline: it may follow a turn's start while the turn runs.
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
void Restore(Journal& journal, const DeltaLog::Left& left) {
  const Result<JournalTranscript> transcript = journal.Read(left.session);
  if (!transcript.ok()) return Report(left.session, transcript.status());
  if (!Continues(*transcript, left.after)) return;  // another process has closed the answer
  const auto done = [session = left.session](const Status& status, const JournalPosition&) { Report(session, status); };
  std::vector<JournalRecord> records = left.records;
  records.push_back(Encode(InterruptedRecord{}));  // in one entry: no reader sees the turn running here
  const Status accepted =
      journal.Append({.session = left.session, .records = std::move(records), .urgent = true}, done);
  if (!accepted.ok()) Report(left.session, accepted);
}

}  // namespace

Status RestoreDeltas(Journal& journal) {
  DeltaLog* const deltas = journal.deltas();
  if (deltas == nullptr) return Status::Ok();
  ASSIGN_OR_RETURN(const std::vector<DeltaLog::Left> left, deltas->ReadLeft());
  for (const DeltaLog::Left& one : left) {
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
