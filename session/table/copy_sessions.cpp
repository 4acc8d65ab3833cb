#include "session/table/copy_sessions.h"

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "session/journal/shared_log.h"
#include "session/records.h"

namespace ringside {
namespace {

/// The session's only entry. Its age is kept: each store counts its own uptime.
Result<JournalEntry> EntryOf(const Journal& from, const Journal& to, const std::string& session) {
  ASSIGN_OR_RETURN(JournalTranscript transcript, from.Read(session));
  auto summary = DecodeSummary(transcript.summary);
  if (!summary.ok()) return DamagedSession(session, "its summary is inconsistent");
  summary->used_s += to.UptimeSeconds() - from.UptimeSeconds();
  JournalEntry entry;
  entry.session = session;
  entry.create = true;
  entry.records = std::move(transcript.records);
  SetSummary(*summary, &entry);
  return entry;
}

Status AppendAndWait(Journal& to, JournalEntry entry) {
  const auto told = std::make_shared<std::promise<Status>>();
  entry.urgent = true;  // one at a time: the queue holds no more
  RETURN_IF_ERROR(
      to.Append(std::move(entry), [told](const Status& status, const JournalPosition&) { told->set_value(status); }));
  return told->get_future().get();
}

bool StopsAll(const Status& status) {
  return status.code() == StatusCode::kIo || status.code() == StatusCode::kUnavailable;
}

}  // namespace

Result<CopiedSessions> CopySessions(Journal& from, Journal& to,
                                    const std::function<void(const CopiedSessions&)>& progress) {
  std::vector<std::string> sessions;
  RETURN_IF_ERROR(from.ForEachHead([&](const JournalHead& head) { sessions.emplace_back(head.session); }));
  CopiedSessions count;
  for (const std::string& session : sessions) {
    // No other server of a shared store may change it meanwhile.
    Status status = from.Claim(session);
    if (status.ok() && to.Last(session).status().code() != StatusCode::kNotFound) {
      ++count.present;
    } else {
      Result<JournalEntry> entry = status.ok() ? EntryOf(from, to, session) : Result<JournalEntry>(status);
      status = entry.ok() ? AppendAndWait(to, *std::move(entry)) : entry.status();
      if (StopsAll(status)) return status;
      if (!status.ok()) LogError("{} is not copied: {}", session, status.message());
      ++(status.ok() ? count.copied : count.failed);
    }
    progress(count);
  }
  return count;
}

}  // namespace ringside
